"""Trained policies with cards that say how they were trained and what they can do."""
