"""The module in which earlier versions have the Adder and its functions."""

from rsl_rl.compat.adder import Adder, gae, gae_data, list_split, lists_to_dicts

__all__ = ["Adder", "gae", "gae_data", "list_split", "lists_to_dicts"]
