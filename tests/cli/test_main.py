"""The command: its subcommands, help and errors."""

import subprocess
import sys
import time

import pytest

from configs import EXPERIMENTS
from rsl_rl import __version__
from rsl_rl.cli.main import COMMANDS


def test_rsl_rl_without_a_command_shows_the_commands(run_script):
    for arguments, code in ((("--help",), 0), ((), 2)):
        done = run_script("-m", "rsl_rl", *arguments)
        assert done.returncode == code and "usage: rsl-rl COMMAND" in done.stdout and "check-env" in done.stdout


def test_version_is_printed_without_importing_torch(run_script):
    done = run_script("-X", "importtime", "-m", "rsl_rl", "--version")
    assert done.returncode == 0 and done.stdout == f"rsl-rl-lib {__version__}\n"
    assert " torch\n" not in done.stderr


def test_list_has_a_name_and_a_description_in_each_line(run_script):
    done = run_script("-X", "importtime", "-m", "rsl_rl", "list")
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == EXPERIMENTS.names() and " torch\n" not in done.stderr
    described = dict(lines)
    assert described["go2_flat"] == "Unitree Go2 on flat ground, following velocity commands"
    assert len(set(described.values())) == len(described)


def test_command_leaves_no_objects_to_the_last_collection(run_script):
    code = (
        "import atexit, gc\n"
        "from rsl_rl.cli.main import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
        "main(['list']), main(['list'])"
    )
    assert run_script("-W", "error", "-c", code).stdout.splitlines()[-1] == "True"


def test_unknown_command_is_one_line(run_script):
    done = run_script("-m", "rsl_rl", "tarin")
    assert "Did you mean 'train'?" in done.stderr
    assert done.returncode == 2 and f"unknown command 'tarin'; known: {', '.join(COMMANDS)}." in done.stderr


@pytest.mark.parametrize("words", [("\x1b[31mtrain\n",), ("train", "--task", "\x1b[31m\n\u202etoy")])
def test_error_with_control_characters_is_one_printable_line(run_script, words):
    done = run_script("-m", "rsl_rl", *words)
    assert done.returncode == 2 and done.stderr.endswith("\n") and done.stderr[:-1].isprintable()


@pytest.mark.parametrize("command", ["train", "play", "evaluate", "export", "sweep", "list", "check-env"])
def test_help_of_a_command_imports_no_torch(run_script, command):
    began = time.perf_counter()
    done = run_script("-X", "importtime", "-m", "rsl_rl", command, "--help")
    print(f"{command} --help took {time.perf_counter() - began:.2f} s")
    assert done.returncode == 0 and f"usage: rsl-rl {command}" in done.stdout
    assert " torch\n" not in done.stderr and " typing\n" in done.stderr


def test_output_that_is_no_longer_read_is_no_error(root):
    command = f"{sys.executable} -m rsl_rl list | head -n 1; {sys.executable} -m rsl_rl train --help | head -n 1"
    done = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, text=True, timeout=300)
    first_task, first_line = done.stdout.splitlines()
    assert first_task.startswith("anymal_c_flat ") and first_line == "usage: rsl-rl train [-h] [OPTIONS]"
    assert done.stderr == ""


def test_output_in_an_ascii_terminal_has_question_marks_for_other_characters(root, tmp_path):
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "rsl_rl", "evaluate", "--task", "toy", "--log_root", str(tmp_path / "größe")]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=root, timeout=300, check=False)
    assert done.returncode == 2 and b"gr??e/toy has no run" in done.stderr and b"Traceback" not in done.stderr


def test_message_with_a_long_name_is_shortened(rsl_rl_here, capsys):
    assert rsl_rl_here("train", "--task", "toy", "--" + "x" * 5_000, "1") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 1000 < len(line) < 2100 and "--xxx" in line and "; `--help` prints the usual flags" in line


def test_log_root_that_is_a_link_to_itself_is_one_line(rsl_rl_here, tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    assert rsl_rl_here("train", "--task", "toy", "--max_iterations", "1", "--log_root", str(tmp_path / "loop")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "error: " in line and "loop" in line


def test_command_that_is_interrupted_is_one_line_and_exit_code_130(rsl_rl_here, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("rsl_rl.cli.main.Experiments", interrupted)
    assert rsl_rl_here("list") == 130
    assert capsys.readouterr().err == "rsl-rl list: interrupted\n"


def test_task_that_ends_the_process_is_one_line_and_exit_code_1(rsl_rl_here, tmp_path, monkeypatch, capsys):
    from rsl_rl.tasks.toy import PointEnv

    toy = ("--task", "toy", "--log_root", str(tmp_path), "--num_envs", "4")
    assert rsl_rl_here("train", *toy, "--max_iterations", "1", "--runner.logger", "none") == 0
    for place in ("step", "__init__"):
        monkeypatch.setattr(PointEnv, place, lambda *_, **__: sys.exit(0))
        for command in (("evaluate", *toy[:4], "--episodes", "2"), ("play", *toy[:4]), ("train", *toy)):
            capsys.readouterr()
            assert rsl_rl_here(*command) == 1, command
            error = capsys.readouterr().err
            assert "the task, or code that it calls, has ended the process (sys.exit(0))" in error.splitlines()[-1]
