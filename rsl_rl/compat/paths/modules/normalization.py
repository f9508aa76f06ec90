"""The module in which rsl_rl 2 to 5 have these classes."""

from rsl_rl.compat.former_code import EmpiricalDiscountedVariationNormalization, EmpiricalNormalization

__all__ = ["EmpiricalDiscountedVariationNormalization", "EmpiricalNormalization"]
