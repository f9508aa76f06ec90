"""Module paths of rsl_rl 1 to 5 that this version has not: the packages that name them search here too."""
