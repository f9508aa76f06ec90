"""Policies in C: compiled by strict compilers, run under sanitizers, and compared with onnx_policy.py."""

import importlib
import itertools
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.cli.export import describe_robot_policy
from rsl_rl.config.policy import (
    ACTIVATIONS,
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)
from rsl_rl.evaluation.c_policy import COMPILERS, JOINT_VALUES, CPolicy
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.exporters.c import export_c
from rsl_rl.modules import ActorCritic
from rsl_rl.runners import OnPolicyRunner

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C compiler is installed")

runner_file = import_shipped("rsl_rl_deploy.onnx_policy")

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
NETS = {"actor_hidden_dims": (32, 16), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
SYMMETRIC = {"actor_hidden_dims": (32, 16), "critic_hidden_dims": (8,)}
POLICIES = {
    "mlp": ActorCriticConfig(**NETS),
    "gru of two layers": ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=24, rnn_num_layers=2, **NETS),
    "lstm": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=24, **NETS),
    "lstm of two layers": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=24, rnn_num_layers=2, **NETS),
    "symmetric mlp": SymmetricActorCriticConfig(**SYMMETRIC),
    "symmetric gru": SymmetricActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=24, **SYMMETRIC),
    "symmetric lstm": SymmetricActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=24, **SYMMETRIC),
}
FAST = ("mlp", "lstm of two layers", "symmetric gru")


@pytest.fixture(
    scope="module", params=[name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in POLICIES]
)
def exported(request, tmp_path_factory):
    """A Go2's policy with a history that has hardly learned, as ONNX and as C."""
    torch.manual_seed(0)
    task = replace(flat_task(), num_envs=8)
    observations = {**task.observations, "policy": replace(task.observations["policy"], history=2)}
    task = replace(task, observations=observations)
    runner = OnPolicyRunner(task.build(seed=1), TrainConfig(policy=POLICIES[request.param], env=task))
    runner.learn(2)
    with torch.no_grad():
        for parameter in runner.alg.policy.actor_model.parameters():
            parameter.mul_(1.3)  # a lively policy
    interface = {**describe_module(policy_module(runner.alg.policy)), **runner.env.describe_interface(["policy"])}
    content = describe_robot_policy({"task": "go2_flat", **interface}, Path("model_2.pt"))
    for term in content["observations"]:  # ONNX and C have these scales, one for each number
        if term["name"] == "command":
            term["scale"] = [2.0, 1.5, 0.25]
    folder = tmp_path_factory.mktemp("exported")
    return SimpleNamespace(
        description=content,
        onnx=runner.export_policy_to_onnx(folder, metadata=content),
        source=export_c(runner.alg.policy, folder / "policy.c", content),
        int8=export_c(runner.alg.policy, folder / "small.c", content, int8=True),
    )


@pytest.fixture
def sim_to_sim(root, monkeypatch):
    """The module, which imports its neighbour by its file name; ``runner_file`` is that neighbour."""
    monkeypatch.syspath_prepend(str(root / "deploy"))
    monkeypatch.setitem(sys.modules, "onnx_policy", runner_file)
    yield importlib.import_module("sim_to_sim")
    del sys.modules["sim_to_sim"]


def in_c(exported, joint_names=None):
    return CPolicy(exported.source, exported.description, joint_names, runner_file.PolicyStoppedError)


def test_c_along_a_recorded_walk_gives_the_targets_of_onnx(exported, sim_to_sim):
    """In plain MuJoCo, where ONNX drives the robot and C is told the same; each has its own memory and history."""
    walker = sim_to_sim.Walker(mujoco, exported.onnx)
    in_onnx, other = walker.policy, in_c(exported, walker.policy.joint_names)
    differences, commands = [], sim_to_sim.draw_commands(exported.description["command_ranges"], seed=2)

    def both(**readings):
        targets = in_onnx(**readings)
        differences.append(np.abs(other(**readings) - targets).max())
        return targets

    both.reset = lambda: (in_onnx.reset(), other.reset())
    both.__dict__.update({name: getattr(in_onnx, name) for name in ("control_period", "default_joint_pos")})
    walker.policy = both
    sim_to_sim.walk(walker, commands, 500)
    assert len(differences) == 500 and max(differences) < 1e-6
    assert in_onnx.counts == other.counts and np.abs(in_onnx.last_action).max() > 0.2
    for mine, theirs in zip(other.memories, in_onnx.memories):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    for name in JOINT_VALUES:
        np.testing.assert_allclose(getattr(other, name), getattr(in_onnx, name), rtol=1e-6)


def with_rounded_weights(path):
    """The ONNX network with the weights of its layers rounded to 8 bits, a scale for each output."""
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    model = onnx.load(str(path))
    arrays = {array.name: array for array in model.graph.initializer if len(array.dims) > 1}
    makers = {name: node for node in model.graph.node for name in node.output}

    def weights(name):  # gates of some layers are put into another order
        node = makers.get(name)
        inner = [] if node is None or node.op_type not in ("Slice", "Concat", "Unsqueeze") else node.input
        return {name} & set(arrays) | {found for other in inner for found in weights(other)}

    for node in model.graph.node:
        if node.op_type not in ("Gemm", "MatMul", "GRU", "LSTM"):
            continue
        transposed = any(entry.name == "transB" and entry.i for entry in node.attribute)
        turned = node.op_type == "MatMul" or (node.op_type == "Gemm" and not transposed)
        inputs = node.input[1:3] if node.op_type in ("GRU", "LSTM") else node.input[1:2]
        for name in {found for other in inputs for found in weights(other)}:
            weight = numpy_helper.to_array(arrays[name])
            rows = weight.T if turned else weight.reshape(-1, weight.shape[-1])
            scale = np.abs(rows).max(axis=1, keepdims=True) / 127
            rounded = np.rint(rows / np.where(scale > 0, scale, 1)) * scale
            rounded = (rounded.T if turned else rounded).reshape(weight.shape)
            arrays[name].CopyFrom(numpy_helper.from_array(rounded.astype(np.float32), name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    return lambda *inputs: session.run(None, dict(zip(names, inputs)))


def test_c_with_int8_weights_computes_the_network_with_rounded_weights(exported, tmp_path):
    in_c = CPolicy(exported.int8, exported.description, None, runner_file.PolicyStoppedError)
    rounded, shapes = with_rounded_weights(exported.onnx), exported.description["inputs"]
    states = [np.zeros(shape, np.float32) for name, shape in shapes.items() if name != "obs"]
    generator, largest = np.random.default_rng(0), 0.0
    _, plain = runner_file.open_onnx(exported.onnx)
    for _ in range(50):
        obs = generator.normal(size=shapes["obs"]).astype(np.float32)
        got, wanted = in_c.network(obs, *states), rounded(obs, *states)
        largest = max(largest, np.abs(plain(obs, *states)[0] - got[0]).max())
        for mine, theirs in zip(got, wanted):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
        states = wanted[1:]
    assert 1e-4 < largest < 0.2  # the rounding
    for compiler in filter(shutil.which, ("gcc", "clang")):
        build = [compiler, *STRICT, "-Wconversion", "-O2", "-c", str(exported.int8), "-o", str(tmp_path / "small.o")]
        assert subprocess.run(build, capture_output=True, text=True, check=False).stderr == ""
    assert exported.int8.stat().st_size < exported.source.stat().st_size


def test_c_walks_in_mujoco_as_onnx_does(exported, sim_to_sim):
    walker = sim_to_sim.Walker(mujoco, exported.onnx)
    numbers = []
    for policy in (walker.policy, in_c(exported, walker.policy.joint_names)):
        walker.policy = policy
        numbers.append(sim_to_sim.walk(walker, itertools.cycle([[0.5, 0.0, 0.2]]), 100))
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=0.02)


@pytest.mark.slow
def test_c_lets_64_robots_fall_no_more_often_than_onnx_does(exported, sim_to_sim):
    walker, numbers = sim_to_sim.Walker(mujoco, exported.onnx), []
    per_robot = np.random.default_rng(1).uniform(*np.array(exported.description["command_ranges"]).T, (64, 2, 3))
    for policy in (walker.policy, in_c(exported, walker.policy.joint_names)):
        walker.policy = policy
        numbers.append([sim_to_sim.walk(walker, itertools.cycle(commands), 1000) for commands in per_robot])
    falls, errors = np.array(numbers)[:, :, 0].sum(axis=1), np.array(numbers)[:, :, 1:].mean(axis=1)
    print(f"falls: onnxruntime {falls[0]:g}, C {falls[1]:g}; errors {errors.round(4).tolist()}")
    assert falls[1] <= falls[0] + 1  # rounding may tip a robot that is about to fall
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.02)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_compiles_without_a_warning(exported, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    more = ("-Wshadow", "-Wconversion", "-Wdouble-promotion", "-O2")
    build = [compiler, *STRICT, *more, "-c", str(exported.source), "-o", str(tmp_path / "policy.o")]
    assert subprocess.run(build, capture_output=True, text=True, check=False).stderr == ""


def test_c_needs_nothing_but_the_mathematical_library(exported, tmp_path):
    """The object file refers to functions of math.h, and to none that allocates or prints."""
    source = exported.source.read_text()
    assert {line for line in source.splitlines() if line.startswith("#include")} == {
        '#include "policy.h"',
        "#include <math.h>",
    }
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    build = [compiler, *STRICT, "-O2", "-c", str(exported.source), "-o", str(tmp_path / "policy.o")]
    subprocess.run(build, check=True)
    listed = subprocess.run(["nm", "-u", str(tmp_path / "policy.o")], capture_output=True, text=True, check=True).stdout
    used = set(listed.split()) - {"U"}
    maths = {"sin", "cos", "expf", "expm1f", "tanhf", "sqrtf", "sincos"}
    assert used <= maths | {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}


def fuzz(exported, folder, steps, compiler="gcc"):
    """Run the policy under the sanitizers with readings of every kind; return how often each status came."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program = folder / "fuzz"
    sources = [str(exported.source), str(Path(__file__).parent / "fuzz_policy.c")]
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
    include = ("-I", str(exported.source.parent))
    build = [compiler, *STRICT, *sanitizers, *include, *sources, "-o", str(program), "-lm"]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if "libclang_rt" in built.stderr:
        pytest.skip("clang has no sanitizers; Debian's package is libclang-rt-dev")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program), str(steps), "7"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return list(map(int, done.stdout.split()))


def test_c_with_fuzzed_readings_keeps_its_promises(exported, tmp_path):
    assert min(fuzz(exported, tmp_path, 5_000)) > 0  # every status


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_with_a_million_fuzzed_readings_keeps_its_promises(exported, tmp_path, compiler):
    assert min(fuzz(exported, tmp_path, 1_000_000, compiler)) > 0


# Descriptions and readings of every kind, against onnx_policy.py

JOINTS = ["hip", "knee", 'a "b" \\ ??/']
SIZES = {"base_lin_vel": 3, "base_ang_vel": 3, "gravity": 3, "command": 3, "gait_clock": 2}
SIZES.update(dict.fromkeys(("joint_pos", "joint_vel", "action"), len(JOINTS)))
floats = st.floats(-2.0, 2.0, width=32)
positive = st.floats(0.125, 2.0, width=32)


@st.composite
def descriptions(draw):
    """The description of a robot of three joints."""
    names = draw(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, unique=True))
    terms = [
        {
            "name": name,
            "size": SIZES[name],
            "scale": draw(positive),
            "frame": "joint" if SIZES[name] == len(JOINTS) and name[:4] in ("join", "acti") else "base",
            "history": draw(st.integers(1, 3)),
            "clip": None,
        }
        for name in names
    ]

    def per_joint(values):
        return [draw(values) for _ in JOINTS]

    lowest = per_joint(st.floats(-1.0, -0.125, width=32))
    mounting = np.array([draw(floats), 1.0, draw(floats), draw(floats)])
    order = draw(st.sampled_from(["wxyz", "xyzw"]))
    units = {"joint_pos": ("rad", "deg"), "joint_vel": ("rad/s", "deg/s"), "base_ang_vel": ("rad/s", "deg/s")}
    limits = {name: draw(positive) for name in ("base_ang_vel", "joint_pos", "joint_vel", "observation")}
    return {
        "format": 2,
        "task": "fuzz",
        "inputs": {"obs": [1, sum(term["size"] * term["history"] for term in terms)]},
        "joint_signs": per_joint(st.sampled_from([1.0, -1.0])),
        "joint_zeros": per_joint(floats),
        "quaternion_order": order,
        "imu_mounting": (mounting / np.linalg.norm(mounting)).tolist(),
        "units": {name: draw(st.sampled_from(allowed)) for name, allowed in units.items()},
        "history_order": "term",
        "observation_clip": None,
        "observations": terms,
        "joint_names": JOINTS,
        "default_joint_pos": per_joint(floats),
        "action_scale": draw(st.one_of(positive, st.lists(positive, min_size=3, max_size=3))),
        "action_clip": draw(positive),
        "stiffness": per_joint(positive),
        "damping": per_joint(positive),
        "torque_limits": per_joint(positive),
        "target_limits": [[low, low + draw(positive)] for low in lowest],
        "control_period": 0.02,
        "command_ranges": [[-draw(positive), draw(positive)] for _ in range(3)],
        "commands": {
            "velocity": draw(
                st.sampled_from(
                    [{}, {"max_lin_acc": 2.0, "max_yaw_acc": 0.0}, {"max_lin_acc": 1.0, "max_yaw_acc": 4.0}]
                )
            ),
            "gait_clock": {"period": 0.5, "dead_zone": draw(st.sampled_from([0.5, None]))},
        },
        "input_limits": {name: 3.0 * limit for name, limit in limits.items()},
    }


def readings_of(generator, used):
    """Readings of a control step; in one of four, one of those that the policy uses is not as it should be."""
    quat = generator.normal(size=4)
    readings = {
        "command": generator.uniform(-2, 2, 3),
        "base_quat": quat / np.linalg.norm(quat),
        "base_ang_vel": generator.normal(size=3),
        "base_lin_vel": generator.normal(size=3),
        "joint_pos": generator.normal(size=len(JOINTS)),
        "joint_vel": generator.normal(size=len(JOINTS)),
    }
    readings = {name: value.astype(np.float32) for name, value in readings.items()}
    if used and generator.random() < 0.25:
        name = generator.choice(sorted(used))
        wrong = generator.choice([None, np.nan, np.inf, 1e30, 5.0])
        if wrong is None:
            readings[name] = None
        else:
            readings[name][generator.integers(len(readings[name]))] = wrong
    return readings


def outcome(policy, readings):
    """The targets of a step, or the kind of its refusal."""
    try:
        return policy(**readings)
    except runner_file.PolicyStoppedError:
        return "stopped"
    except ValueError:
        return "not started"


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
@given(descriptions(), st.sampled_from(ACTIVATIONS), st.permutations(JOINTS), st.integers(0, 2**32 - 1))
def test_c_does_what_the_runner_does_for_any_description_and_readings(
    tmp_path_factory, description, activation, order, seed
):
    torch.manual_seed(seed)
    num_obs = description["inputs"]["obs"][1]
    policy = ActorCritic(
        num_obs, num_obs, len(JOINTS), actor_hidden_dims=(9,), critic_hidden_dims=(4,), activation=activation
    )
    module = policy_module(policy)

    def network(obs):
        return [module(torch.from_numpy(obs)).numpy()]

    expected = runner_file.Policy(description, network, order)
    source = export_c(policy, tmp_path_factory.mktemp("fuzz") / "policy.c", description)
    actual = CPolicy(source, description, order, runner_file.PolicyStoppedError)
    generator = np.random.default_rng(seed)
    sources = {"gravity": "base_quat", "gait_clock": "command"}
    used = {sources.get(term["name"], term["name"]) for term in description["observations"]} - {"action"}
    for _ in range(150):
        if generator.random() < 0.05:
            expected.reset()
            actual.reset()
        readings = readings_of(generator, used)
        wanted, got = outcome(expected, readings), outcome(actual, readings)
        assert isinstance(got, str) == isinstance(wanted, str) and (not isinstance(got, str) or got == wanted)
        if not isinstance(got, str):
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=2e-5)  # degrees
        assert actual.held == expected.held
    assert actual.counts == expected.counts


TERM = {"name": "joint_pos", "size": 3, "scale": 1.0, "frame": "joint", "history": 1, "clip": None}
UNITS = {"joint_pos": "rad", "joint_vel": "rad/s", "base_ang_vel": "rad/s"}
SMALL = {
    "format": 2,
    "task": "walk",
    "inputs": {"obs": [1, 3]},
    "observations": [TERM],
    "history_order": "term",
    "observation_clip": None,
    "joint_names": ["hip", "knee", "ankle"],
    **dict.fromkeys(("default_joint_pos", "joint_zeros"), [0.0] * 3),
    **dict.fromkeys(("stiffness", "damping", "torque_limits", "joint_signs"), [1.0] * 3),
    "action_scale": 0.25,
    "action_clip": 20.0,
    "target_limits": [[-1.0, 1.0]] * 3,
    "input_limits": {},
    "quaternion_order": "wxyz",
    "imu_mounting": [1.0, 0.0, 0.0, 0.0],
    "units": UNITS,
    "commands": {},
    "command_ranges": [[-1.0, 1.0]] * 3,
    "control_period": 0.02,
}
"""The description of a robot that senses its joints alone."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation_clip": 100.0}, "C has no clip of observations"),
        ({"history_order": "step"}, "no history_order but term"),
        ({"joint_names": ["hip", "knee", "Gelenk \u00e4"]}, "C needs names of ASCII letters"),
        ({"stiffness": [1.0] * 2}, "joint_stiffness has 2 values; give one for each of 3 joints"),
        ({"target_limits": [[-1.0, 1.0]] * 4}, "lowest_target has 4 values"),
        ({"target_limits": None}, "has no target_limits"),
        ({"damping": [1.0, float("nan"), 1.0]}, "has the number nan; C needs finite ones"),
        ({"inputs": {"obs": [1, 4]}}, "the observations have 3 numbers"),
        ({"observations": [{**TERM, "size": 4}]}, "joint_pos has the size 4 and a history of 1; give 3 numbers"),
        ({"observations": [{**TERM, "scale": [1.0, 2.0]}]}, "joint_pos has 2 scales; give one number, or 3"),
        ({"observations": [{**TERM, "name": "friction"}]}, "C code does not read friction"),
        ({"observations": [5]}, "the description does not fit"),
        ({"torque_limits": [1.0, 1e39, 1.0]}, r"has the number 1e\+39; C needs finite ones"),
        ({"units": {**UNITS, "joint_vel": "*/ int x; /*"}}, "give rad/s or deg/s for velocities"),
        ({"observations": [{**TERM, "history": 2}], "inputs": {"obs": [1, 6]}}, "has 3 observations and 3 actions"),
    ],
)
def test_c_of_what_it_cannot_do_is_refused(tmp_path, changes, message):
    policy = ActorCritic(3, 3, 3, actor_hidden_dims=(4,), critic_hidden_dims=(4,))
    with pytest.raises(ValueError, match=message):
        export_c(policy, tmp_path / "policy.c", {**SMALL, **changes})
    assert not list(tmp_path.iterdir())


def test_c_of_a_description_that_lacks_fields_names_them(tmp_path):
    policy = ActorCritic(3, 3, 3, actor_hidden_dims=(4,), critic_hidden_dims=(4,))
    lacking = {name: value for name, value in SMALL.items() if name not in ("units", "commands")}
    with pytest.raises(ValueError, match=r"the description lacks commands, units; give the content of policy\.json"):
        export_c(policy, tmp_path / "policy.c", lacking)


def test_c_of_a_broken_network_or_with_a_name_that_is_none_in_c_is_refused(tmp_path):
    policy = ActorCritic(3, 3, 3, actor_hidden_dims=(4,), critic_hidden_dims=(4,))
    with pytest.raises(ValueError, match=r"my-policy\.c: functions in C begin with this name"):
        export_c(policy, tmp_path / "my-policy.c", SMALL)
    with torch.no_grad():
        next(policy.actor.parameters())[0, 0] = torch.nan
    with pytest.raises(ValueError, match="weights that are not finite"):
        export_c(policy, tmp_path / "policy.c", SMALL)
