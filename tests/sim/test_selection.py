"""What "auto" stands for, on machines with and without a GPU."""

import importlib.util

import pytest
import torch

from rsl_rl.sim.base import Backend, choose_backend, has_device, is_available

CPU, WARP_ON_CPU = Backend("mujoco", "cpu"), Backend("mujoco_warp", "cpu")
GPU, GYM_ON_GPU = Backend("mujoco_warp", "cuda:0"), Backend("isaacgym", "cuda:0")

CHOICES = {  # GPU, installed packages, backend and device asked for -> what is taken
    (False, (), "auto", "auto"): CPU,
    (False, ("mujoco_warp",), "auto", "auto"): CPU,
    (True, ("mujoco_warp",), "auto", "auto"): GPU,
    (True, (), "auto", "auto"): CPU,
    (True, ("mujoco_warp",), "mujoco", "auto"): CPU,
    (True, ("mujoco_warp",), "auto", "cpu"): CPU,
    (True, (), "auto", "cuda:1"): Backend("mujoco_warp", "cuda:1"),  # which then says what to install
    (False, ("mujoco_warp",), "mujoco_warp", "auto"): WARP_ON_CPU,
    (True, ("mujoco_warp",), "mujoco_warp", "auto"): GPU,
    (True, ("isaacgym",), "isaacgym", "auto"): GYM_ON_GPU,
    (True, ("mujoco_warp", "isaacgym"), "auto", "auto"): GPU,
    (True, ("mujoco_warp",), "my.robots:Sim", "auto"): Backend("my.robots:Sim", "cpu"),
    (True, ("mujoco_warp",), "mujoco_warp", "cpu"): WARP_ON_CPU,
}


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine with or without a GPU and with some packages."""

    def pretend(gpu, packages):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: int(gpu))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in packages else None)

    return pretend


@pytest.mark.parametrize("case", CHOICES)
def test_what_is_asked_for_is_taken_and_the_rest_is_the_best_there_is(machine, case):
    gpu, packages, backend, device = case
    machine(gpu, packages)
    assert choose_backend(backend, device) == CHOICES[case]


@pytest.mark.parametrize(
    ("gpu", "packages", "place", "here"),
    [
        (False, (), CPU, True),
        (False, (), GPU, False),
        (False, ("mujoco_warp",), GPU, False),
        (True, (), GPU, False),
        (True, ("mujoco_warp",), GPU, True),
        (False, ("mujoco_warp",), WARP_ON_CPU, True),
        (True, ("mujoco_warp",), Backend("mujoco_warp", "cuda:1"), False),
        (True, ("mujoco_warp", "isaacgym"), GYM_ON_GPU, False),  # which holds one simulation per process
    ],
)
def test_an_engine_serves_with_its_package_and_its_device(machine, gpu, packages, place, here):
    machine(gpu, packages)
    assert is_available(place) is here


def test_devices_are_counted(machine):
    machine(True, ())
    assert [has_device(name) for name in ("cpu", "cuda", "cuda:0", "cuda:1")] == [True, True, True, False]
