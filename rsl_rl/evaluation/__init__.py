"""Measure, show and check trained policies of legged robots."""
