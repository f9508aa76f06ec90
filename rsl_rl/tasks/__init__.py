"""Tasks: environments of simulated robots."""
