"""The page's evaluator of networks against onnxruntime, for every kind of network that is exported."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rsl_rl.config.policy import (
    ACTIVATIONS,
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

TOLERANCE = 1e-5
NUM_OBS, NUM_ACTIONS, STEPS = 6, 4, 10
NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (8,)}
MIRRORS = {
    "actor_mirror": ((1, 0, 2, 4, 3, 5), (1.0, 1.0, -1.0, -1.0, -1.0, 1.0)),
    "critic_mirror": ((1, 0, 2, 4, 3, 5), (1.0, 1.0, -1.0, -1.0, -1.0, 1.0)),
    "action_mirror": ((1, 0, 3, 2), (1.0, 1.0, -1.0, -1.0)),
}
POLICIES = {
    "normalised": ActorCriticConfig(actor_obs_normalization=True, **NETS),
    "beta": ActorCriticConfig(distribution="beta", **NETS),
    "standard deviation by the actor": ActorCriticConfig(state_dependent_std=True, **NETS),
    "without hidden layers": ActorCriticConfig(actor_hidden_dims=(), critic_hidden_dims=()),
    "gru of two layers": ActorCriticRecurrentConfig(
        rnn_type="gru", rnn_hidden_size=12, rnn_num_layers=2, actor_obs_normalization=True, **NETS
    ),
    "lstm of two layers": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=12, rnn_num_layers=2, **NETS),
    "symmetric": SymmetricActorCriticConfig(**NETS, **MIRRORS),
    "symmetric gru": SymmetricActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=12, **NETS, **MIRRORS),
    "symmetric lstm": SymmetricActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=12, **NETS, **MIRRORS),
}

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"

PROGRAM = """
import { readFileSync } from "node:fs";
import { Network } from "./network";
import { readModel } from "./onnx";
const requests = JSON.parse(readFileSync(0, "utf8"));
const answers = requests.map(({ path, steps, states }) => {
  const network = new Network(readModel(readFileSync(path)));
  let memories = states.map((dims) => ({ dims, data: new Float64Array(dims.reduce((a, b) => a * b, 1)) }));
  return steps.map((obs) => {
    const [actions, ...after] = network.run([{ dims: [1, obs.length], data: Float64Array.from(obs) }, ...memories]);
    memories = after;
    return [...actions.data];
  });
});
console.log(JSON.stringify(answers));
"""


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    """Run networks with the page's evaluator, in Node.js."""
    esbuild = WEB / "node_modules" / ".bin" / "esbuild"
    if shutil.which("node") is None or not esbuild.exists():
        pytest.skip("Node.js or the packages of web/ are missing: make page")
    bundle = tmp_path_factory.mktemp("evaluator") / "evaluator.mjs"
    entry = ("--bundle", "--format=esm", "--platform=node", "--loader=ts", f"--outfile={bundle}")
    source = {"input": PROGRAM, "text": True, "cwd": WEB / "src"}
    subprocess.run([esbuild, *entry], check=True, capture_output=True, timeout=120, **source)

    def run(requests):
        done = subprocess.run(
            ["node", bundle], input=json.dumps(requests), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return [np.array(answer) for answer in json.loads(done.stdout)]

    return run


def compare(policies, evaluate, folder):
    """Compare the evaluator with onnxruntime over some steps, for exported files and those of the page of a training;
    weights are larger than at the start of a training."""
    import torch

    from rsl_rl.exporters.onnx import export_onnx
    from rsl_rl.exporters.quick_onnx import quick_onnx

    obs = np.random.default_rng(0).normal(scale=2.0, size=(STEPS, NUM_OBS)).astype(np.float32)
    requests, expected = [], []
    for name, cfg in policies.items():
        policy = cfg.build(NUM_OBS, NUM_OBS, NUM_ACTIONS)
        if policy.actor_obs_normalizer is not None and cfg.actor_obs_normalization:
            policy.actor_obs_normalizer.update(3.0 + 2.0 * torch.randn(64, NUM_OBS))
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.mul_(2.0)
        path = export_onnx(policy, folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        shapes = {x.name: x.shape for x in session.get_inputs() if x.name != "obs"}
        states, actions = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}, []
        for row in obs:
            action, *after = session.run(None, {"obs": row[None], **states})
            states = dict(zip(states, after))
            actions.append(action[0])
        assert np.ptp(actions, axis=0).max() > 0.05, name  # the actions depend on the observations
        quick = folder / f"{name}, quick.onnx"
        quick.write_bytes(quick_onnx(policy, {}))
        for file in (path, quick):
            requests.append({"path": str(file), "steps": obs.tolist(), "states": list(shapes.values())})
            expected.append(np.array(actions))
    for request, actual, wanted in zip(requests, evaluate(requests), expected):
        np.testing.assert_allclose(actual, wanted, atol=TOLERANCE, err_msg=request["path"])


def test_network_of_every_kind_acts_like_onnxruntime(evaluate, tmp_path):
    compare(POLICIES, evaluate, tmp_path)


@pytest.mark.slow
def test_network_with_every_activation_acts_like_onnxruntime(evaluate, tmp_path):
    compare({name: ActorCriticConfig(activation=name, **NETS) for name in ACTIVATIONS}, evaluate, tmp_path)


def test_network_file_that_is_damaged_is_one_error(evaluate, tmp_path):
    path = tmp_path / "cut.onnx"
    path.write_bytes((ROOT / "tests" / "web" / "go2_flat.onnx").read_bytes()[:30_000])
    with pytest.raises(AssertionError, match="not an ONNX file of an exported policy: a field is cut off"):
        evaluate([{"path": str(path), "steps": [], "states": []}])
