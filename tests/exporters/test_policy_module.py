"""Every kind of policy can be exported: the files act as the policy does without exploration."""

import pytest
import torch

from rsl_rl.exporters import describe_module, export_torchscript, policy_module
from rsl_rl.exporters.policy_module import example_inputs
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent

NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
DISTRIBUTIONS = {
    "gaussian": {},
    "state-dependent": {"state_dependent_std": True},
    "beta": {"distribution": "beta"},
    "categorical": {"distribution": "categorical"},
}
IMAGES = {"image_shapes": {"camera": (1, 8, 16), "heights": (9, 7)}, "actor_groups": ("policy", "camera", "heights")}


def make(memory, distribution, images):
    settings = {**NETS, **DISTRIBUTIONS[distribution], **(IMAGES if images else {})}
    if memory:
        policy = ActorCriticRecurrent(3, 3, 2, rnn_type=memory, rnn_hidden_size=6, **settings)
    else:
        policy = ActorCritic(3, 3, 2, **settings)
    policy.actor_obs_normalizer.update(2.0 * torch.randn(50, 3) + 1.0)
    return policy


@torch.no_grad()
def walk(policy, call, num_steps=4):
    """Largest difference between the policy and an exported file over some steps."""
    states = {name: x for name, x in example_inputs(policy_module(policy)).items() if name.endswith("_in")}
    policy.reset()
    worst = 0.0
    for _ in range(num_steps):
        inputs = {name: torch.randn_like(x) for name, x in example_inputs(policy_module(policy)).items()}
        inputs.update(states)
        expected = policy.act_inference({"policy": inputs["obs"], **inputs})
        actions, *after = call(inputs)
        states = dict(zip(states, after))
        worst = max(worst, (actions.float() - expected.float()).abs().max().item())
    return worst


@pytest.mark.parametrize(
    ("memory", "distribution", "images"),
    [
        *(("", distribution, images) for distribution in DISTRIBUTIONS for images in (False, True)),
        ("gru", "beta", False),
        ("gru", "state-dependent", True),
        ("lstm", "categorical", False),
        ("lstm", "gaussian", True),
    ],
)
def test_torchscript_of_every_policy_acts_as_the_policy(memory, distribution, images, tmp_path):
    policy = make(memory, distribution, images)
    script = torch.jit.load(str(export_torchscript(policy, tmp_path / "policy.pt")))

    def call(inputs):
        result = script(*inputs.values())
        return result if isinstance(result, tuple) else (result,)

    assert walk(policy, call) < 1e-6  # float32 rounding of sums in another order


@pytest.mark.parametrize(
    ("memory", "distribution", "images"),
    [("", "beta", True), ("gru", "categorical", False), ("lstm", "gaussian", True)],
)
def test_onnx_of_every_policy_acts_as_the_policy(memory, distribution, images, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from rsl_rl.exporters.onnx import export_onnx

    policy = make(memory, distribution, images)
    session = onnxruntime.InferenceSession(str(export_onnx(policy, tmp_path / "policy.onnx")))

    def call(inputs):
        return [torch.from_numpy(x) for x in session.run(None, {name: x.numpy() for name, x in inputs.items()})]

    assert walk(policy, call) < 1e-5  # onnxruntime has its own products and exponentials


def test_description_names_image_inputs_and_states():
    described = describe_module(policy_module(make("lstm", "gaussian", True)))
    assert described["inputs"] == {
        "obs": [1, 3], "camera": [1, 1, 8, 16], "heights": [1, 9, 7], "h_in": [1, 1, 6], "c_in": [1, 1, 6],
    }  # fmt: skip
    assert described["outputs"] == {"actions": [1, 2], "h_out": [1, 1, 6], "c_out": [1, 1, 6]}
