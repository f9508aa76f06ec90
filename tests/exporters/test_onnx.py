import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from deploy.onnx_policy import network_sha256
from rsl_rl.config.policy import (
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.exporters.policy_module import example_inputs, output_names
from rsl_rl.modules import ActorCritic

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from rsl_rl.exporters.onnx import export_onnx  # noqa: E402
from rsl_rl.exporters.quick_onnx import quick_onnx  # noqa: E402

NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
SYMMETRIC_NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (8,)}
POLICIES = {
    "mlp": ActorCriticConfig(**NETS),
    "gru": ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=12, **NETS),
    "gru of three layers": ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=12, rnn_num_layers=3, **NETS),
    "lstm": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=12, **NETS),
    "lstm of two layers": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=12, rnn_num_layers=2, **NETS),
    "symmetric mlp": SymmetricActorCriticConfig(**SYMMETRIC_NETS),
    "symmetric gru": SymmetricActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=12, **SYMMETRIC_NETS),
    "symmetric lstm": SymmetricActorCriticRecurrentConfig(
        rnn_type="lstm", rnn_hidden_size=12, rnn_num_layers=2, **SYMMETRIC_NETS
    ),
}


class OnnxPolicy:
    """A policy of one robot in onnxruntime, with its memory."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.names = [x.name for x in self.session.get_inputs()]
        self.shapes = {x.name: x.shape for x in self.session.get_inputs()}
        self.reset()

    def reset(self):
        self.state = {name: np.zeros(self.shapes[name], np.float32) for name in self.names if name != "obs"}

    def __call__(self, obs):
        actions, *states = self.session.run(None, {"obs": obs.numpy(), **self.state})
        self.state = dict(zip(self.state, states))
        return torch.from_numpy(actions)


class ScriptPolicy:
    """The same in libtorch."""

    def __init__(self, path, module):
        self.module, self.zeros = torch.jit.load(str(path)), list(example_inputs(module).values())[1:]
        self.reset()

    def reset(self):
        self.state = self.zeros

    def __call__(self, obs):
        out = self.module(obs, *self.state)
        actions, *self.state = out if isinstance(out, tuple) else (out,)
        return actions


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("gru", "lstm", "mlp") else name for name in POLICIES],
)
def test_files_act_like_the_policy_over_a_real_rollout_with_resets(name, tmp_path):
    """One robot that falls now and then; the policy's own actions drive it. 20 s are compared for the LSTM of two
    layers and in slow tests."""
    from dataclasses import replace

    from configs.go2_flat_blind import blind_task
    from configs.train_config import TrainConfig
    from rsl_rl.runners import OnPolicyRunner

    cfg = TrainConfig(task="go2_flat_blind", policy=POLICIES[name], env=replace(blind_task(), num_envs=4))
    env = cfg.env.build(seed=1)
    runner = OnPolicyRunner(env, cfg)
    runner.learn(2)  # the normaliser has seen something
    with torch.no_grad():
        for parameter in runner.alg.policy.parameters():
            parameter.mul_(1.5)  # a lively policy
    env = replace(cfg.env, num_envs=1, episode_length=2.0).build(seed=2)
    seconds = 5.0 if name == "gru of three layers" or name.startswith("symmetric") else 20.0
    module = policy_module(runner.alg.policy)
    files = [
        OnnxPolicy(runner.export_policy_to_onnx(tmp_path)),
        ScriptPolicy(runner.export_policy_to_jit(tmp_path), module),
    ]
    acting, obs, resets = runner.get_inference_policy(), env.reset(), 0
    for _ in range(round(seconds / env.cfg.sim.control_dt)):
        actions = acting(obs)
        for file in files:
            torch.testing.assert_close(file(obs["policy"]), actions, atol=1e-5, rtol=0.0)
        obs, _, done, _ = env.step(actions)
        acting.reset(done)
        if done.item():
            resets += 1
            for file in files:
                file.reset()
    assert resets > 0 and actions.abs().max() > 0.05


@pytest.mark.parametrize("length", [1, 127, 128, 20_000])
def test_quick_file_holds_the_metadata_of_any_length(length, tmp_path):
    policy = POLICIES["gru"].build(5, 5, 3)
    metadata = {"task": "w" * length, "a name of more than one hundred and twenty seven bytes" * 3: [1.5, None]}
    (tmp_path / "a.onnx").write_bytes(quick_onnx(policy, metadata))
    session = onnxruntime.InferenceSession(str(tmp_path / "a.onnx"), providers=["CPUExecutionProvider"])
    stored = session.get_modelmeta().custom_metadata_map
    assert {name: json.loads(value) for name, value in stored.items()} == metadata
    assert [x.name for x in session.get_inputs()] == ["obs", "h_in"]


def test_file_names_no_place_of_this_machine(root, tmp_path):

    content = export_onnx(POLICIES["gru"].build(5, 5, 3), tmp_path / "policy.onnx").read_bytes()
    assert str(root).encode() not in content and b"site-packages" not in content and b"Linear" not in content


def test_inputs_outputs_and_metadata_are_in_the_file(tmp_path):
    policy = POLICIES["lstm of two layers"].build(5, 5, 3)
    from rsl_rl.exporters.onnx import OPSET

    metadata = {"task": "walk", "joint_names": ["hip", "knee"], "action_scale": 0.25}
    path = export_onnx(policy, tmp_path / "new" / "policy.onnx", metadata)
    assert [p.name for p in path.parent.iterdir()] == ["policy.onnx"]  # no weights beside it
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    described = describe_module(policy_module(policy))
    assert {x.name: x.shape for x in session.get_inputs()} == described["inputs"]
    assert described["inputs"] == {"obs": [1, 5], "h_in": [2, 1, 12], "c_in": [2, 1, 12]}
    assert {x.name: x.shape for x in session.get_outputs()} == described["outputs"]
    assert tuple(described["outputs"]) == output_names(policy_module(policy)) == ("actions", "h_out", "c_out")
    stored = session.get_modelmeta().custom_metadata_map
    entries = {name: json.loads(value) for name, value in stored.items()}
    network = entries.pop("network_sha256")
    assert len(entries.pop("sha256")) == 64 and entries == metadata
    import onnx

    model = onnx.load(path)
    assert model.opset_import[0].version == OPSET
    del model.metadata_props[:]
    assert hashlib.sha256(model.SerializeToString()).hexdigest() == network_sha256(path.read_bytes()) == network


def test_it_is_silent(tmp_path):
    code = f"""
from pathlib import Path
from rsl_rl.modules import ActorCritic
from rsl_rl.exporters.onnx import export_onnx
export_onnx(ActorCritic(3, 3, 2), Path(r"{tmp_path}") / "policy.onnx")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_package_the_error_names_it_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "rsl_rl.exporters.onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ModuleNotFoundError, match="onnxscript"):
        from rsl_rl.exporters.onnx import export_onnx

        export_onnx(ActorCritic(3, 3, 2), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
