"""Programs of the checkout that tests run in processes of their own."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


class Programs:
    """Runs Python programs as a user does from a shell.

    A process is new where Python gets options, where variables are set that imports may read, and where a child cannot
    use what its parent has imported. Elsewhere it comes from ``warm_server.py``, which has imported torch; the server
    starts with the first of them.
    """

    def __init__(self, folder: Path):
        self._can_fork = sys.platform == "linux" and not torch.cuda.is_available()
        self._folder, self._server, self._lock = folder, None, threading.Lock()

    def run(
        self, *command: str, timeout: float = 300, cwd: Path = ROOT, **environment: str
    ) -> subprocess.CompletedProcess:
        """Run ``python *command`` to its end with variables of the environment; return its exit code and output."""
        with self.start(*command, cwd=cwd, **environment) as program:
            try:
                texts = program.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                program.kill()
                program.communicate()
                raise
        return subprocess.CompletedProcess(command, program.returncode, *texts)

    def start(self, *command: str, cwd: Path = ROOT, **environment: str):
        """Start ``python *command``; return the process, whose output can be read as of ``subprocess.Popen``."""
        command = tuple(map(str, command))
        env = {**os.environ, "COLUMNS": "200", **environment}
        if self._can_fork and command[0] not in ("-X", "-W") and set(environment) <= {"COLUMNS", "PYTHONPATH"}:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            with self._lock:
                self._start_server()
                return WarmProgram(command, {"command": command, "cwd": str(cwd), "env": env}, folder, self._server)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, *command], cwd=cwd, env=env, text=True, **pipes)

    def _start_server(self) -> None:
        if self._server is None:
            command = [sys.executable, str(ROOT / "tests" / "warm_server.py")]
            env = {
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
            }  # numpy's, which would start them: a fork needs one thread
            self._server = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, text=True)
        elif self._server.poll() is not None:
            raise RuntimeError(f"tests/warm_server.py has ended with code {self._server.returncode}")

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.communicate()


class WarmProgram:
    """A process that the warm server has started, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, args, request: dict, folder: Path, server: subprocess.Popen):
        self.args, self.returncode = args, None
        pipes = {name: str(folder / name) for name in ("status", "stdout", "stderr")}
        opened = []
        for path in pipes.values():
            os.mkfifo(path)
            opened.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # or opening would wait for the writer
        server.stdin.write(json.dumps({**request, **pipes}) + "\n")
        server.stdin.flush()
        while not select.select(opened[:1], [], [], 1.0)[0]:
            if server.poll() is not None:
                raise RuntimeError(f"tests/warm_server.py has ended with code {server.returncode}")
        for number in opened:
            os.set_blocking(number, True)
        self._status, self.stdout, self.stderr = (open(number) for number in opened)  # noqa: SIM115
        told = self._status.readline()
        if not told:
            raise RuntimeError("tests/warm_server.py could not start a program")
        self.pid = int(told)

    def poll(self):
        """Return the exit code, None while the process runs."""
        return self._code_within(0)

    def _code_within(self, seconds):
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline())
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end; return the exit code."""
        if self._code_within(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Wait for the end; return what is left of the output."""
        texts = {}
        readers = [
            threading.Thread(target=lambda pipe=pipe: texts.update({pipe: pipe.read()}), daemon=True)
            for pipe in (self.stdout, self.stderr)
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        self.__exit__()
        return texts[self.stdout], texts[self.stderr]

    def send_signal(self, number):
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """End the process."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()
        for pipe in (self._status, self.stdout, self.stderr):
            pipe.close()
