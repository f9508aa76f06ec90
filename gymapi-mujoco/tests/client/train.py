"""The client's training script."""

from distutils.util import strtobool  # noqa: F401  # clients import what Python 3.12 has no more

import numpy as np
from legged_task import get_args, train

if __name__ == "__main__":
    args = get_args()
    env = train(args)
    print(f"trained on {env.device}: reward {env.rew_buf.mean().item():.3f}, {np.float(env.num_envs):g} robots")
