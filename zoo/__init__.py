"""Trained policies, a folder each with a card: `rsl-rl zoo list`. The wheel has them as the package rsl_rl_zoo."""
