"""A training that is told to stop: real processes and real signals, in every phase of an iteration."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid

import pytest

from rsl_rl.utils.checkpoints import read_checkpoint

PHASES = {  # where the signal strikes: a function, and the number of its call (16 steps, 8 gradient steps an iteration)
    "rollout": ("rsl_rl.tasks.toy.PointEnv.step", 3 + 16 * 2 + 5),  # the first three check the environment
    "update": ("rsl_rl.algorithms.ppo.GradientSteps.step", 8 * 2 + 3),
    "save": ("os.fsync", 8),
}

DRIVER = """
import os, runpy, signal, sys
import rsl_rl.algorithms.ppo, rsl_rl.tasks.toy
owner, _, name = {target!r}.rpartition(".")
owner, original, calls = eval(owner), eval({target!r}), 0
def strike(*args):
    global calls
    calls += 1
    if calls == {call}:
        print("struck", flush=True)
        for number in {signals}:
            os.kill(os.getpid(), number)
    return original(*args)
setattr(owner, name, strike)
sys.argv = ["train.py", *{arguments!r}]
runpy.run_path("scripts/train.py", run_name="__main__")
"""


@pytest.fixture
def experiment(root):
    name = f"signals-{uuid.uuid4().hex[:8]}"
    yield name
    shutil.rmtree(root / "logs" / name, ignore_errors=True)


def train(run_script, experiment, phase, *signals):
    target, call = PHASES[phase]
    arguments = ["--task", "toy", "--experiment_name", experiment, "--max_iterations", "100000"]
    arguments += ["--save_interval", "3", "--algorithm.num_learning_epochs", "2"]
    code = DRIVER.format(target=target, call=call, signals=[int(number) for number in signals], arguments=arguments)
    return run_script("-c", code, timeout=120)


@pytest.mark.parametrize(
    ("phase", "number", "code"),
    [
        ("update", signal.SIGTERM, 143),
        ("rollout", signal.SIGINT, 130),
        pytest.param("rollout", signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("save", signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("update", signal.SIGUSR1, 143, marks=pytest.mark.slow),
        pytest.param("rollout", signal.SIGHUP, 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_the_iteration_and_the_run_goes_on_later(run_script, root, experiment, phase, number, code):
    done = train(run_script, experiment, phase, number)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    before, _, after = done.stdout.partition("struck")
    assert before and after.count("iteration") - after.count("after iteration") <= 1  # the one at hand, and no other
    (run,) = (root / "logs" / experiment).iterdir()
    last = int(after.split("after iteration ")[1].split()[0])
    assert f"interrupted by {number.name} after iteration {last} and saved" in after
    assert read_checkpoint(run / f"model_{last}.pt")["iter"] == last
    resumed = ("--task", "toy", "--experiment_name", experiment, "--resume", "--max_iterations", str(last + 1))
    assert run_script("scripts/train.py", *resumed).returncode == 0
    lines = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines == list(range(1, last + 2))


def test_a_second_interrupt_leaves_at_once(run_script, root, experiment):
    done = train(run_script, experiment, "rollout", signal.SIGINT, signal.SIGINT)
    assert done.returncode == 130 and "stopped at once" in done.stderr and "Traceback" not in done.stderr
    assert "iteration 3" not in done.stdout
    (run,) = (root / "logs" / experiment).iterdir()
    assert (run / "model_0.pt").exists()


def test_a_training_under_nohup_outlives_its_terminal(run_script, root, experiment):
    target, call = PHASES["rollout"]
    arguments = ["--task", "toy", "--experiment_name", experiment, "--max_iterations", "4"]
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    code += DRIVER.format(target=target, call=call, signals=[int(signal.SIGHUP)], arguments=arguments)
    done = run_script("-c", code, timeout=120)
    assert done.returncode == 0 and "struck" in done.stdout, done.stderr
    (run,) = (root / "logs" / experiment).iterdir()
    assert (run / "model_4.pt").exists()


def test_the_clock_ends_a_run_as_a_signal_does(run_script, root, experiment):
    done = run_script(
        "scripts/train.py", "--task", "toy", "--experiment_name", experiment, "--max_iterations", "100000",
        "--max_time", "1.5",
    )  # fmt: skip
    assert done.returncode == 143 and "interrupted by max_time after iteration" in done.stdout, done.stderr


def test_a_training_that_cannot_go_on_is_one_line_and_exit_code_1(run_script, root, experiment):
    done = run_script(
        "scripts/train.py", "--task", "toy", "--experiment_name", experiment, "--safety.max_reward", "1e-30",
        "--safety.max_rollbacks", "0",
    )  # fmt: skip
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1
    assert "train.py: failed after iteration 1: 20 gradient steps in a row" in done.stderr
    assert "fault: reward" in done.stdout and "postmortem/reward_1.json" in done.stdout


@pytest.mark.parametrize("where", [pytest.param("a pipe that nobody reads", marks=pytest.mark.slow), "a full disk"])
def test_a_console_that_is_gone_ends_no_training(root, experiment, where):
    arguments = ["--task", "toy", "--experiment_name", experiment, "--max_iterations", "20", "--save_interval", "10"]
    reading, writing = os.pipe()
    console = writing if where == "a pipe that nobody reads" else os.open("/dev/full", os.O_WRONLY)
    process = subprocess.Popen(
        [sys.executable, "scripts/train.py", *arguments], cwd=root, stdout=console, stderr=subprocess.PIPE, text=True
    )
    os.close(reading)
    os.close(writing)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    (run,) = (root / "logs" / experiment).iterdir()
    assert read_checkpoint(run / "model_20.pt")["iter"] == 20 and errors == ""


def test_second_ctrl_c_in_a_terminal_shows_the_cursor_again(root, experiment):
    """The console's table hides the cursor; the first Ctrl-C comes inside of an update that never ends."""
    arguments = ["--task", "toy", "--experiment_name", experiment, "--max_iterations", "100000"]
    code = DRIVER.format(target=PHASES["update"][0], call=3, signals=[2, 2], arguments=arguments)
    terminal, inside = os.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    assert process.wait(timeout=120) == 130
    assert b"stopped at once" in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l") > 0
