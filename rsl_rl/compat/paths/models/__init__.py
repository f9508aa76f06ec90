"""For code written for rsl_rl 4 and 5, see rsl_rl.compat.models; the networks of this version are in rsl_rl.modules."""

from rsl_rl.compat.models import CNNModel, MLPModel, RNNModel

__all__ = ["CNNModel", "MLPModel", "RNNModel"]
