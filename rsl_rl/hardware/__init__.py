"""What is done with the robot itself: its parameters are found from its logs."""
