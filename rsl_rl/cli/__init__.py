"""The command `rsl-rl`; main.py lists its subcommands."""
