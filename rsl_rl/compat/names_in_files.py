"""Names of tensors in checkpoint files, theirs and ours."""

from __future__ import annotations

from typing import Dict, List, Sequence


class Names:
    """Prefixes of names in a file, and ours for them."""

    def __init__(self, ours: Dict[str, str]):
        self._ours = ours
        self._theirs = {our: their for their, our in ours.items()}

    def to_native(self, name: str) -> str:
        """Return our name for one in a file."""
        return _replaced(name, self._ours)

    def from_native(self, name: str) -> str:
        """Return the name in a file for one of ours."""
        return _replaced(name, self._theirs)

    def has(self, name: str) -> bool:
        """Return whether one of our names has its place in the file."""
        return any(name.startswith(prefix) for prefix in self._theirs)


def _replaced(name: str, prefixes: Dict[str, str]) -> str:
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def names_for(major: int, role: str) -> Names:
    """Return the names of a network ("actor" or "critic") in files of a major version; up to 3 both are in one dict."""
    if major < 4:
        return Names({})
    letter = role[0]
    ours = {"mlp.": f"{role}.", "rnn.rnn.": f"memory_{letter}.rnn.", "obs_normalizer.": f"{role}_obs_normalizer."}
    if role == "actor":
        ours.update({"distribution.log_std_param": "log_std", "distribution.std_param": "std"})
        if major == 4:
            ours = {"log_std": "log_std", "std": "std", **{k: v for k, v in ours.items() if "param" not in k}}
    return Names(ours)


def optimizer_order(names: Sequence[str], version: Sequence[int]) -> List[str]:
    """Return our names of parameters in the order of the optimiser of a version."""
    major = version[0]
    if major >= 4:
        order = ("std", "log_std", "actor.", "memory_a.", "critic.", "memory_c.")
    elif major == 3:
        order = ("std", "log_std", "memory_a.", "actor.", "memory_c.", "critic.")
    else:
        order = ("std", "log_std", "actor.", "critic.", "memory_a.", "memory_c.")
    return sorted(names, key=lambda name: next(i for i, prefix in enumerate(order) if name.startswith(prefix)))
