"""Loggers of training metrics."""

from rsl_rl.loggers.console import ConsoleLogger
from rsl_rl.loggers.episode_stats import EpisodeStats, RecentEpisodes
from rsl_rl.loggers.logger import LOGGERS, JsonlLogger, Logger, Record, RetryingLogger

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
