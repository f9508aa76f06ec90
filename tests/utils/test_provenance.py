"""What made a training: its command without folders, versions and the CPU."""

import json
import platform
import shlex
from importlib.metadata import version

import pytest
import torch

from rsl_rl.utils.provenance import FILE, package_versions, training_provenance, without_folder, write_provenance


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ("--task toy --log_root /a/b --seed 3", "--task toy --seed 3"),
        ("--log_root=/a/b --task toy", "--task toy"),
        ("--runner.run_name x --runner.experiment_name y --task toy", "--task toy"),
        ("--task toy --runner.max_iterations 3 --log_root", "--task toy --runner.max_iterations 3"),
    ],
)
def test_command_of_a_training_has_no_folder(flags, kept):
    assert without_folder(flags.split()) == kept.split()


def test_provenance_of_several_ranks_names_torchrun():
    command = training_provenance(["--task", "two words"], ranks=3)["command"]
    assert shlex.split(command)[:2] == ["torchrun", "--nproc_per_node=3"] and shlex.split(command)[-1] == "two words"


def test_provenance_says_command_versions_and_machine(tmp_path):
    found = json.loads(write_provenance(tmp_path, ["--task", "toy"]).read_text())
    assert (tmp_path / FILE).is_file() and found["command"] == "rsl-rl train --task toy"
    assert found["versions"]["torch"] == version("torch") and found["versions"]["python"] == platform.python_version()
    assert found["threads"] == torch.get_num_threads() and found["instruction_set"].startswith(platform.machine())
    assert found["cpu"] and len(found["date"]) == 10


def test_versions_of_packages_that_are_not_installed_are_left_out(monkeypatch):
    monkeypatch.setattr("rsl_rl.utils.provenance.PACKAGES", ("torch", "no-such-package"))
    assert set(package_versions()) == {"python", "torch"}
