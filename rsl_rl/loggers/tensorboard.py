"""Write TensorBoard event files with the tags of rsl_rl."""

# pyright: reportAttributeAccessIssue=false
# (protocol buffers make their classes at run time)
from __future__ import annotations

import io
import itertools
import os
import socket
import time
from pathlib import Path
from typing import Dict, Optional

import yaml
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

from rsl_rl.loggers.logger import FileLogger, Record
from rsl_rl.utils.files import AppendFile
from rsl_rl.utils.text import printable

TAGS = {
    "value_loss": "Loss/value_function",
    "surrogate_loss": "Loss/surrogate",
    "entropy": "Loss/entropy",
    "kl": "Loss/kl",
    "learning_rate": "Loss/learning_rate",
    "noise_std": "Policy/mean_noise_std",
    "steps_per_s": "Perf/total_fps",
    "collect_s": "Perf/collection time",
    "learn_s": "Perf/learning_time",
    "mean_reward": "Train/mean_reward",
    "mean_episode_length": "Train/mean_episode_length",
    "excluded_steps": "Faults/excluded_steps",
    "skipped_steps": "Faults/skipped_steps",
}
"""Tag of each metric. The environment's log appears under Episode/, or under a folder of its own where a name has one;
metrics of evaluations appear under Evaluation/, causes of faults under Faults/, times of distributed trainings under
Ranks/ and Communication/."""

_FOLDERS = {
    "episode/": "Episode/",
    "evaluation/": "Evaluation/",
    "faults/": "Faults/",
    "ranks/": "Ranks/",
    "communication/": "Communication/",
}


CONFIG_TAG = "config/text_summary"
"""Tag of the config, which TensorBoard shows under Text."""


def tag_for(name: str) -> Optional[str]:
    """Return the tag of a metric, in printable characters, or None for metrics that are not written."""
    name = printable(name)
    for prefix, folder in _FOLDERS.items():
        if name.startswith(prefix):
            own = name[len(prefix) :]
            return own if prefix == "episode/" and "/" in own else folder + own
    return TAGS.get(name)


class TensorBoardLogger(FileLogger):
    """Write each record immediately, as scalars at its iteration, and the config as text at the start.

    torch's SummaryWriter writes events in a thread some seconds later; a killed run loses some of them, and a full disk
    ends the thread.
    """

    def __init__(self, log_dir: Path, config: Dict):
        self._log_dir, self._config = log_dir, config

    def start(self, first_iteration: int, last_iteration: int) -> None:
        numbers = itertools.count()
        stem = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        path = next(p for p in (self._log_dir / f"{stem}.{i}" for i in numbers) if not p.exists())
        self._file = AppendFile(path)
        restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)  # invalidates later steps of an earlier file
        self._append(
            event_pb2.Event(file_version="brain.Event:2"),
            event_pb2.Event(step=first_iteration + 1, session_log=restart),
            event_pb2.Event(step=first_iteration, summary=summary_pb2.Summary(value=[_config_text(self._config)])),
        )

    def write(self, record: Record) -> None:
        tagged = [(tag_for(name), value) for name, value in record.items()]
        values = [
            summary_pb2.Summary.Value(tag=tag, simple_value=value)
            for tag, value in tagged
            if tag is not None and value is not None
        ]
        self._append(event_pb2.Event(step=int(record["iteration"] or 0), summary=summary_pb2.Summary(value=values)))

    def _append(self, *events: event_pb2.Event) -> None:
        packed = io.BytesIO()
        writer = RecordWriter(packed)
        for event in events:
            event.wall_time = time.time()
            writer.write(event.SerializeToString())
        self.append(packed.getvalue())


def _config_text(config: Dict) -> summary_pb2.Summary.Value:
    """Return a config as YAML in Markdown, in which indented lines are code."""
    lines = yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=120).splitlines()
    text = "\n".join(f"    {line}" for line in lines).encode()
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    return summary_pb2.Summary.Value(
        tag=CONFIG_TAG,
        metadata=summary_pb2.SummaryMetadata(plugin_data=plugin),
        tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text]),
    )
