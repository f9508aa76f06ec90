"""What is done with a robot before it walks: bring-up, and identification from its logs."""
