"""Judge the rewards of a legged robot's task before any training."""

from rsl_rl.evaluation.audit.findings import Audit, Finding, as_json, audit, judge, unit
from rsl_rl.evaluation.audit.incomes import CommandRow, Earned, for_policy
from rsl_rl.evaluation.audit.report import reference_row, report_html, tables

__all__ = [
    "Audit",
    "CommandRow",
    "Earned",
    "Finding",
    "as_json",
    "audit",
    "for_policy",
    "judge",
    "reference_row",
    "report_html",
    "tables",
    "unit",
]
