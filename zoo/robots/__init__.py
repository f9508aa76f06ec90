"""Robots of other projects as `rsl-rl adopt` prepared them for their trainings, each with the licence of its source."""
