"""Networks that rsl_rl 4 and 5 have in this package; see rsl_rl.compat.models."""

from rsl_rl.compat.models import CNNModel, MLPModel, RNNModel

__all__ = ["CNNModel", "MLPModel", "RNNModel"]
