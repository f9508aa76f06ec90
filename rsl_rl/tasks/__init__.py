"""Tasks: simulated robots, and what is asked of them."""
