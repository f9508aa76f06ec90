"""Programs that tests run behave as new processes do."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from tests.programs import ROOT, Programs

SHOW = "import os, sys; print(__name__, sys.argv, sys.path[0], os.getcwd(), os.environ['COLUMNS'])"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["-c", SHOW, "a", "b"], 0),
        (["-c", "import sys; print('told', file=sys.stderr); sys.exit(7)"], 7),
        (["-c", "import sys; sys.exit('a reason')"], 1),
        (["-c", "import atexit; atexit.register(print, 'the end')"], 0),
        (["-c", "import threading, time; threading.Timer(0.1, print, 'x').start()"], 0),
        (["-c", "import os; os.kill(os.getpid(), 15)"], -15),
        (["-c", "import os; os.kill(os.getpid(), 2)"], -2),
        (["-c", "print(input())"], 1),
        (["-m", "shown", "a"], 0),
        (["shown.py", "a"], 0),
    ],
)
def test_program_of_the_warm_server_behaves_like_a_new_process(programs, tmp_path, words, code):
    (tmp_path / "shown.py").write_text(SHOW)
    path = {"COLUMNS": "77", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    warm = programs.run(*words, cwd=tmp_path, **path)
    new = programs.run(*words, cwd=tmp_path, **path, NEW="1")
    assert (warm.returncode, warm.stdout) == (new.returncode, new.stdout)
    assert warm.returncode == code and warm.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]


def test_programs_of_the_warm_server_have_random_numbers_of_their_own(programs):
    words = ("-c", "import random, numpy; print(random.random(), numpy.random.rand())")
    first, second = (programs.run(*words).stdout.split() for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]


@pytest.mark.parametrize("environment", [{}, {"NEW": "1"}])
def test_program_that_takes_too_long_is_ended(programs, environment):
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run("-c", "import time; time.sleep(60)", timeout=0.5, **environment)


def test_warm_server_has_one_thread_as_a_fork_needs(programs):
    if sys.platform != "linux" or torch.cuda.is_available():
        pytest.skip("programs have new processes here")
    code = (
        "import os; keeper = open(f'/proc/{os.getppid()}/stat').read(); server = keeper.rpartition(')')[2].split()[1]\n"
        "print(os.readlink(f'/proc/{server}/cwd'), len(os.listdir(f'/proc/{server}/task')))"
    )
    assert programs.run("-c", code).stdout == f"{ROOT} 1\n"


def test_warm_server_that_has_ended_is_an_error(tmp_path, monkeypatch):
    if sys.platform != "linux" or torch.cuda.is_available():
        pytest.skip("programs have new processes here")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "warm_server.py").write_text("input(); raise SystemExit(3)")
    monkeypatch.setattr("tests.programs.ROOT", tmp_path)
    programs = Programs(tmp_path)
    with pytest.raises(RuntimeError, match="has ended with code 3"):
        programs.run("-c", "pass")
    programs.close()


@pytest.mark.parametrize("environment", [{}, {"NEW": "1"}])
def test_program_that_is_started_gives_its_output_and_gets_signals(programs, environment):
    code = "import sys, time; print('first', flush=True); print('no', file=sys.stderr); time.sleep(60)"
    program = programs.start("-c", code, **environment)
    assert program.stdout.readline() == "first\n" and program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(timeout=0.1)
    program.send_signal(signal.SIGTERM)
    assert program.communicate(timeout=20) == ("", "no\n") and program.returncode == -15 == program.poll()
    program.terminate()  # which is of no use
