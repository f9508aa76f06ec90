"""Prepare robot models of others for training, see docs/own-robot.md."""
