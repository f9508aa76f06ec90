"""The command `rsl-rl`: train, play, evaluate, benchmark, list, check-env, convert-checkpoint."""
