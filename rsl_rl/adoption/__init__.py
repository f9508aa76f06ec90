"""Prepare third-party robot models for training, see docs/own-robot.md."""
