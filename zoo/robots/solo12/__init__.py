"""Solo 12 of the Open Dynamic Robot Initiative, adopted from solo12.urdf of example-robot-data 6.0.0."""
