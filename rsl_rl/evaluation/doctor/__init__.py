"""Say what is wrong between a policy and its robot, from a log of its readings, commands and targets."""

from rsl_rl.evaluation.doctor.diagnosis import Diagnosis, diagnose, fixed_description
from rsl_rl.evaluation.doctor.finding import BOUNDARIES, Finding
from rsl_rl.evaluation.doctor.log import Log, read_log
from rsl_rl.evaluation.doctor.report import lines, report_html

__all__ = [
    "BOUNDARIES",
    "Diagnosis",
    "Finding",
    "Log",
    "diagnose",
    "fixed_description",
    "lines",
    "read_log",
    "report_html",
]
