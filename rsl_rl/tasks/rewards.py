"""Old path of rsl_rl.tasks.mdp.rewards, for one release."""

import warnings

from rsl_rl.tasks.mdp.rewards import *  # noqa: F403

warnings.warn("rsl_rl.tasks.rewards is deprecated; import rsl_rl.tasks.mdp.rewards", DeprecationWarning, stacklevel=2)
