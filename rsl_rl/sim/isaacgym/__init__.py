"""The engine Isaac Gym; engine.py says what was verified, and imports the package isaacgym."""
