"""Measures of `rsl-rl benchmark` and their worker processes; a wheel installs them as rsl_rl_benchmarks."""
