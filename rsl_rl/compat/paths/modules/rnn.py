"""The module in which rsl_rl 4 and 5 have these names."""

from rsl_rl.compat.former_code import RNN
from rsl_rl.utils.trajectories import HiddenState

__all__ = ["RNN", "HiddenState"]
