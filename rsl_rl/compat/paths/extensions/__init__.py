"""Modules of rsl_rl 1 to 5 in this package."""
