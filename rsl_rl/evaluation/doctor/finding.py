"""What the doctor says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping

BOUNDARIES = ("reading", "observation", "action", "target", "motion")
"""From the sensors to the legs: a fault is named at the first boundary where the log differs from what it should be."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong."""

    kind: str
    boundary: str  # of BOUNDARIES
    sentence: str
    evidence: str
    confidence: float  # 0 to 1
    fix: Mapping[str, Any] = field(default_factory=dict)  # changes of the mapping in policy.json
    others: str = ""  # what the log does not tell apart from it
    traces: Mapping[str, Any] = field(default_factory=dict)  # of a plot: "time", "logged", "expected" [T], and "label"

    def as_json(self) -> Dict[str, Any]:
        """Return it without the numbers of its plot."""
        names = ("kind", "boundary", "sentence", "evidence", "confidence", "fix", "others")
        return {name: getattr(self, name) for name in names}
