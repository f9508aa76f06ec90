"""A process that has imported what programs of the checkout need, and runs each in a child of its own.

Importing takes most of the time of a short training. The server imports and does nothing else, so a child is what a new
process would be after its imports. Requests are lines of JSON on the standard input: ``command`` (a script, ``-m`` or
``-c``, with arguments), ``cwd``, ``env``, and files for ``stdout`` and ``stderr``. Answers are the child's process ID,
and its exit code once it has ended.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import types

MODULES = (
    "torch",
    "torch._dynamo",  # of every optimizer
    "torch.utils.tensorboard",
    "rsl_rl.cli.train",
    "rsl_rl.cli.play",
    "rsl_rl.cli.evaluate",
    "rsl_rl.cli.export",
    "rsl_rl.evaluation.callbacks",
    "rsl_rl.runners",
    "rsl_rl.sim.mujoco_cpu",
)


def serve() -> list:
    """Answer requests until there are no more; return the command in each child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose programs end by themselves
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become(request)
            return request["command"]
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
    sys.exit()


def become(request: dict) -> None:
    """Have files, folder, environment, and search path of the program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate((os.devnull, request["stdout"], request["stderr"])):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
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


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
    run(serve())
