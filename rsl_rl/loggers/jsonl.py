"""Write metrics.jsonl: one JSON object per iteration."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Optional

from rsl_rl.loggers.logger import Logger, Record
from rsl_rl.utils.files import AppendFile


class JsonlLogger(Logger):
    """Append each record to a file as one line."""

    def __init__(self, path: Path):
        self.path = path
        self._file: Optional[AppendFile] = None

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._file = AppendFile(self.path)

    def write(self, record: Record) -> None:
        if self._file is None:
            return
        finite = {k: v if v is not None and math.isfinite(v) else None for k, v in record.items()}
        self._file.append(json.dumps(finite).encode() + b"\n")

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
