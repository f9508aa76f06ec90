"""Terms of a task: observations, rewards, terminations, commands and events (randomisation and pushes)."""
