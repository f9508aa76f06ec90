"""Loggers of training metrics, one per file."""

from rsl_rl.loggers.console import ConsoleLogger
from rsl_rl.loggers.episode_stats import EpisodeStats, RecentEpisodes
from rsl_rl.loggers.jsonl import JsonlLogger
from rsl_rl.loggers.logger import LOGGERS, Logger, Record
from rsl_rl.loggers.retrying import RetryingLogger

__all__ = [
    "LOGGERS",
    "ConsoleLogger",
    "EpisodeStats",
    "JsonlLogger",
    "Logger",
    "RecentEpisodes",
    "Record",
    "RetryingLogger",
]
