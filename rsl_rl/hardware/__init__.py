"""What is done with a robot before it walks: bring-up. Only the model of the robot needs more than numpy."""
