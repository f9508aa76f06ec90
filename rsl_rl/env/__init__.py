"""The environment interface between learning and simulation."""

from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.check import check_env
from rsl_rl.env.contract import ContractError, check_vec_env
from rsl_rl.env.vec_env import StepResult, VecEnv

__all__ = ["ContractError", "StepResult", "VecEnv", "as_vec_env", "check_env", "check_vec_env"]
