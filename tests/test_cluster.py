"""cluster/: the image's lines agree with the Makefile and the package, and the SLURM script requeues and resumes."""

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from rsl_rl.cli.trainings import find_named_run
from rsl_rl.loggers.logger import read_metrics


@pytest.fixture
def dockerfile(root):
    """The instructions of the Dockerfile, each one line."""
    text = re.sub(r"\\\n\s*", "", (root / "cluster" / "Dockerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def pip_words(line):
    """The words of a pip installation, without what only says how to show or to store it."""
    words = shlex.split(line[line.index("pip install") :])
    assert {"--quiet", "--disable-pip-version-check"} <= set(words)
    return [word for word in words[2:] if word not in ("--quiet", "--disable-pip-version-check", "--no-cache-dir")]


def test_image_installs_what_the_makefile_installs(root, dockerfile):
    make = [pip_words(line) for line in (root / "Makefile").read_text().splitlines() if "pip install" in line][:2]
    image = [pip_words(line) for line in dockerfile if "pip install" in line]
    index = ["--extra-index-url", "${TORCH_INDEX}"]
    assert image[0] == [*make[0][:2], *index, *make[0][2:]] == ["-c", "constraints.txt", *index, "torch"]
    assert image[1] == ["-c", "constraints.txt", ".[${EXTRAS}]"] and make[1][:2] == image[1][:2]
    known = re.search(r"EXTRAS = (\{.*?\})  # fmt", (root / "setup.py").read_text(), flags=re.S)
    extras = set(ast.literal_eval(known[1]))
    (default,) = [line.partition("=")[2] for line in dockerfile if line.startswith("ARG EXTRAS")]
    documented = re.findall(r"EXTRAS=(\S+)", (root / "docs" / "cluster.md").read_text())
    assert documented and all(set(names.split(",")) <= extras for names in (default, *documented))


def test_image_copies_what_the_installation_reads(root, dockerfile):
    copied = [words for line in dockerfile if line.startswith("COPY ") for words in line.split()[1:-1]]
    assert all((root / name).exists() for name in copied)
    read_by_setup = {"rsl_rl", "configs", "deploy", "setup.py", "pyproject.toml", "README.md", "constraints.txt"}
    assert read_by_setup <= set(copied)
    workdir = next(line.split()[1] for line in dockerfile if line.startswith("WORKDIR"))
    assert all(line.split()[-1].startswith(f"{workdir}/") for line in dockerfile if line.startswith("COPY "))


def test_image_declares_every_argument_before_its_use(dockerfile):
    declared = set()
    for line in dockerfile:
        assert set(re.findall(r"\$\{(\w+)\}", line)) <= declared, line
        if line.startswith("ARG "):
            declared.add(line.split()[1].partition("=")[0])
        assert line.split()[0] in {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "ENTRYPOINT", "CMD"}
    assert dockerfile[-2:] == ['ENTRYPOINT ["rsl-rl"]', 'CMD ["--help"]']  # a list: signals reach the training


def test_slurm_script_is_valid_and_asks_for_a_signal_and_to_be_requeued(root):
    script = root / "cluster" / "job.sbatch"
    subprocess.run(["bash", "-n", str(script)], check=True)
    directives = re.findall(r"^#SBATCH (\S+)", script.read_text(), flags=re.M)
    assert {"--signal=B:TERM@120", "--requeue", "--open-mode=append"} <= set(directives)


@pytest.fixture
def job(root, tmp_path):
    """Start the SLURM script as SLURM does, with programs that stand for rsl-rl and scontrol on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in {
        "rsl-rl": f'exec "{sys.executable}" -m rsl_rl "$@"',
        "scontrol": f'echo "$@" >> "{tmp_path}/scontrol.txt"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "SLURM_JOB_ID": "17"}

    def start(*arguments):
        command = ["bash", str(root / "cluster" / "job.sbatch"), *arguments]
        return subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return start


@pytest.mark.slow
def test_slurm_job_saves_before_its_limit_is_requeued_and_resumes(job, tmp_path):
    arguments = ("train", "--task", "toy", "--max_iterations", "60", "--logger", "none", "--log_root", str(tmp_path))
    first = job(*arguments)
    while True:
        run = find_named_run(tmp_path / "toy", "job_17_seed_1")
        if run is not None and len(read_metrics(run)) >= 3:
            break
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)  # B:TERM: to the script alone
    output, _ = first.communicate(timeout=300)
    assert first.returncode == 143 and "interrupted by SIGTERM after iteration" in output, output
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 17\n"
    second = job(*arguments)
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0 and "60/60" in output, output
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 17\n"
    assert [record["iteration"] for record in read_metrics(run)] == list(range(1, 61))
    assert [path for path in (tmp_path / "toy").iterdir()] == [run]


@pytest.mark.slow
def test_slurm_job_that_fails_is_not_requeued(job, tmp_path):
    failed = job("train", "--task", "toy", "--num_envs", "many")
    output, _ = failed.communicate(timeout=300)
    assert failed.returncode == 2 and "invalid literal for int()" in output
    assert not (tmp_path / "scontrol.txt").exists()
