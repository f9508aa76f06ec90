"""A process that has imported what programs of the checkout need, and runs each in a child of its own.

Importing takes most of the time of a short training. The server imports and does nothing else, so a child is what a new
process would be after its imports. Requests are lines of JSON on the standard input: ``command`` (a script, ``-m`` or
``-c``, with arguments), ``cwd``, ``env``, and named pipes for ``stdout``, ``stderr`` and ``status``. The status is a
line with the process ID, and one with the exit code in the end.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import types

MODULES = (
    "torch",
    "torch._dynamo",  # of every optimizer
    "torch.utils.tensorboard",
    "typeguard",  # of tyro, when it parses
    "torch.onnx._internal.exporter._core",  # of an export to ONNX
    "onnxscript.function_libs.torch_lib.ops",
    "rsl_rl.exporters.onnx",
    "rsl_rl.evaluation.plots",
    "rsl_rl.cli.main",
    "rsl_rl.cli.train",
    "rsl_rl.cli.play",
    "rsl_rl.cli.evaluate",
    "rsl_rl.cli.export",
    "rsl_rl.evaluation.callbacks",
    "rsl_rl.runners",
    "rsl_rl.sim.mujoco_cpu",
)


def serve() -> list:
    """Answer requests until there are no more; return the command in the process of each program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose programs end by themselves
    for line in sys.stdin:
        with contextlib.suppress(ChildProcessError):  # there are none
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if os.fork() == 0:
            request = json.loads(line)
            outputs = keep(request)
            become(request, outputs)
            return request["command"]
    sys.exit()


def keep(request: dict) -> list:
    """Return in the process of the program, with the pipes for its output; its parent tells how it ends.

    The pipes are open before the process is told of, so that who started it never waits for them.
    """
    outputs = [os.open(request[name], os.O_WRONLY) for name in ("stdout", "stderr")]
    pid = os.fork()
    if pid:
        for number in outputs:
            os.close(number)
        with open(request["status"], "w", buffering=1) as status:
            print(pid, file=status)
            _, ending = os.waitpid(pid, 0)
            print(-os.WTERMSIG(ending) if os.WIFSIGNALED(ending) else os.WEXITSTATUS(ending), file=status)
        os._exit(0)
    return outputs


def become(request: dict, outputs: list) -> None:
    """Have files, folder, environment, and search path of the program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, opened in enumerate((os.open(os.devnull, os.O_RDONLY), *outputs)):
        os.dup2(opened, number)
        os.close(opened)
    unbuffered = bool(request["env"].get("PYTHONUNBUFFERED"))
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(write_through=unbuffered)
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["cwd"])
    former = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["env"])
    first = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in first if path] + [path for path in sys.path[1:] if path not in former]
    importlib.import_module("numpy").random.seed()  # as a new process would


def run(command: list) -> None:
    """Run a program as ``python *command`` does."""
    kind, *words = command
    if kind == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[1:]]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), vars(module))
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(kind)))
        sys.argv = [kind, *words]
        runpy.run_path(kind, run_name="__main__")


def end(code: object) -> None:
    """End the process with the code of a SystemExit, as Python does, but leave the modules as they are: to take torch
    apart takes longer than most programs of the tests."""
    if not isinstance(code, (int, type(None))):
        sys.exit(code)  # prints it
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    gc.collect()  # files are closed
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # the checkout
    for module in MODULES:
        with contextlib.suppress(ModuleNotFoundError):  # of an extra that is not installed
            importlib.import_module(module)
    gc.freeze()
    try:
        run(serve())
    except SystemExit as ending:
        end(ending.code)
    end(0)
