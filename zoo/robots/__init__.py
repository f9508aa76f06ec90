"""Robots of other projects as `rsl-rl adopt` prepares them, each with the licence of its source."""
