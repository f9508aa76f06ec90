"""Programs that run an exported policy without rsl_rl. The wheel installs this folder as the package rsl_rl_deploy."""
