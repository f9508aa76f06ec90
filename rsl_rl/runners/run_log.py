"""Files of a run besides its checkpoints: config, git state and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Union

from rsl_rl.config.learn import LearnConfig
from rsl_rl.loggers import LOGGERS, ConsoleLogger, JsonlLogger, Logger, Record, RetryingLogger
from rsl_rl.runners.superseded import supersede_after
from rsl_rl.utils.config_io import to_dict, write_yaml
from rsl_rl.utils.files import remove_temporary_files
from rsl_rl.utils.git_repositories import one_file_per_repository
from rsl_rl.utils.git_state import write_git_state


class RunLog:
    """Write config and git state of a run, and its metrics with the loggers; without a folder, use the console only.

    Only rank 0 of a distributed training writes and prints.
    """

    def __init__(self, folder: Optional[Path], cfg: LearnConfig, env_cfg: Any, rank: int = 0):
        self._rank, self.folder = rank, folder if rank == 0 else None
        self._cfg, self._env_cfg = cfg, env_cfg
        self._git_files: List[Path] = [Path(__file__)]
        self._logger_class = LOGGERS.load(cfg.runner.logger) if self.folder is not None else None
        self._loggers: List[Logger] = []
        self._config_path: Optional[Path] = None  # of the config that this object has written

    def add_git_repo(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file too."""
        self._git_files.append(Path(file_in_repo))

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Move files of later iterations away, write config and git state once, and open the loggers.

        In a resumed run an error of the disk prints a warning only.
        """
        notes: List[str] = []
        if self.folder is not None:
            resumed = (self.folder / "config.yaml").exists()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                branch = supersede_after(self.folder, first_iteration)
                if branch is not None:
                    notes.append(f"note: iterations after {first_iteration} of an earlier training are in {branch}")
                remove_temporary_files(self.folder)
                if self._config_path is None or not self._config_path.exists():  # it may have been moved away
                    self._write_config(self.folder, first_iteration, notes)
            except OSError as error:
                if not resumed:
                    raise
                notes.append(f"warning: the config and git state of this start could not be written ({error})")
        self._loggers = self._loggers or self._make_loggers()
        for logger in self._loggers:
            logger.start(first_iteration, last_iteration)
        for note in notes:
            self.print_line(note)

    def _write_config(self, folder: Path, iteration: int, notes: List[str]) -> None:
        """Write config and git state; a resumed run writes new files. Warnings are added to ``notes``."""
        ending = f"_from_{iteration}" if (folder / "config.yaml").exists() else ""
        config = to_dict(self._cfg)
        config.setdefault("env", to_dict(self._env_cfg))
        path = folder / f"config{ending}.yaml"
        write_yaml(config, path)
        write_git_state(one_file_per_repository(self._git_files), folder / f"git{ending}", notes.append)
        self._config_path = path

    def _make_loggers(self) -> List[Logger]:
        loggers: List[Logger] = [ConsoleLogger(self._cfg.runner.experiment_name)] if self._rank == 0 else []
        if self.folder is not None and self._logger_class is not None:
            files = JsonlLogger(self.folder / "metrics.jsonl"), self._logger_class(self.folder, to_dict(self._cfg))
            loggers += [RetryingLogger(logger, self.print_line) for logger in files]
        return loggers

    def write(self, record: Record) -> None:
        """Write the metrics of one iteration with every logger."""
        for logger in self._loggers:
            logger.write(record)

    def print_line(self, text: str) -> None:
        """Print a line for the user."""
        for logger in self._loggers:
            logger.note(text)

    def sync(self) -> None:
        """Flush all files to the disk."""
        for logger in self._loggers:
            logger.sync()

    def close(self) -> None:
        """Close the files; ``start`` may follow."""
        for logger in self._loggers:
            logger.close()
