"""Programs of the checkout that tests run in processes of their own."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


class Programs:
    """Runs Python programs as a user does from a shell.

    A process is new where Python gets options, where variables are set that imports may read, and where a child cannot
    use what its parent has imported. Elsewhere it is a child of ``warm_server.py``, which has imported torch; the
    server starts with the first of them.
    """

    def __init__(self, folder: Path):
        self._can_fork = sys.platform == "linux" and not torch.cuda.is_available()
        self._folder, self._server, self._lock = folder, None, threading.Lock()

    def run(
        self, *command: str, timeout: float = 300, cwd: Path = ROOT, **environment: str
    ) -> subprocess.CompletedProcess:
        """Run ``python *command`` to its end with variables of the environment; return its exit code and output."""
        env = {**os.environ, "COLUMNS": "200", **environment}
        if self._can_fork and command[0] not in ("-X", "-W") and set(environment) <= {"COLUMNS", "PYTHONPATH"}:
            return self._run_warm(command, timeout, cwd, env)
        return subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=timeout, cwd=cwd, env=env, check=False
        )

    def _run_warm(self, command, timeout, cwd, env) -> subprocess.CompletedProcess:
        out, err = self._folder / "out", self._folder / "err"
        request = {"command": command, "cwd": str(cwd), "env": env, "stdout": str(out), "stderr": str(err)}
        with self._lock:
            server = self._start_server()
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            alarm = threading.Timer(timeout, os.kill, (int(server.stdout.readline()), 9))
            alarm.start()
            code = int(server.stdout.readline())
            in_time = alarm.is_alive()
            alarm.cancel()
            texts = out.read_text(), err.read_text()
        if not in_time:
            raise subprocess.TimeoutExpired(command, timeout, *texts)
        return subprocess.CompletedProcess(command, code, *texts)

    def _start_server(self) -> subprocess.Popen:
        if self._server is None:
            command = [sys.executable, str(ROOT / "tests" / "warm_server.py")]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._server = subprocess.Popen(command, cwd=ROOT, **pipes)
        return self._server

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.communicate()
