"""Path of TrainConfig for experiments that import it from here; it is in rsl_rl.config.experiment."""

from rsl_rl.config.experiment import TrainConfig

__all__ = ["TrainConfig"]
