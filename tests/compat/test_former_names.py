import importlib
import subprocess
import sys

import pytest
import torch
from torch import nn

from rsl_rl.compat.former_names import NAMES


@pytest.mark.parametrize("module", NAMES)
def test_every_name_of_an_earlier_version_leads_somewhere(module):
    for name in NAMES[module]:
        assert getattr(importlib.import_module(module), name) is not None
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec(f"from {module} import Nothing")


IMPORTS = """
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner, DistillationRunner
from rsl_rl.runners.on_policy_runner import OnPolicyRunner
from rsl_rl.algorithms import PPO, Distillation
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent, EmpiricalNormalization, MLP, CNN, RNN, HiddenState
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.actor_critic_recurrent import ActorCriticRecurrent, Memory
from rsl_rl.networks import MLP, Memory, EmpiricalNormalization
from rsl_rl.storage import RolloutStorage
from rsl_rl.extensions import RandomNetworkDistillation, resolve_rnd_config, resolve_symmetry_config
from rsl_rl.utils import store_code_state, resolve_callable, resolve_nn_activation, split_and_pad_trajectories
from rsl_rl.utils.utils import unpad_trajectories, resolve_obs_groups, string_to_callable
"""


def test_the_import_lines_of_clients_work_in_a_new_process(root):
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_looking_for_a_name_that_is_nowhere_imports_no_torch(root):
    code = "import sys, rsl_rl.utils; hasattr(rsl_rl.utils, 'nothing'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_mlp_by_sizes():
    from rsl_rl.modules import MLP

    mlp = MLP(5, [2, 3], [-1, 4], "relu", last_activation="tanh")
    assert mlp(torch.ones(7, 5)).shape == (7, 2, 3) and mlp(torch.ones(7, 5)).abs().max() < 1
    assert mlp[0].out_features == 5 and isinstance(mlp[:2], nn.Sequential)
    mlp.init_weights(2.0)
    torch.testing.assert_close(mlp[0].weight @ mlp[0].weight.T, 4 * torch.eye(5), atol=1e-5, rtol=1e-5)


def test_mlp_and_cnn_stand_for_ours_too():
    from rsl_rl.config.policy import CNNConfig
    from rsl_rl.modules import CNN, MLP
    from rsl_rl.modules.cnn import CNN as OurCNN  # noqa: N811
    from rsl_rl.modules.mlp import MLP as OurMLP  # noqa: N811
    from rsl_rl.modules.mlp import mlp

    assert isinstance(mlp(2, [3], 1, "elu"), MLP) and type(MLP(nn.Linear(2, 3))) is OurMLP
    assert type(CNN((1, 8, 8), CNNConfig())) is OurCNN and not isinstance(nn.Linear(2, 3), MLP)
    assert not isinstance(mlp(2, [3], 1, "elu"), type("Derived", (MLP,), {}))


@pytest.mark.parametrize(("padding", "size"), [("none", 8 * 2 * 2), ("zeros", 8 * 4 * 4)])
def test_cnn_by_sizes(padding, size):
    from rsl_rl.modules import CNN

    cnn = CNN((8, 8), 1, [4, 8], 3, [1, 2], 1, padding)
    assert cnn.output_dim == size and cnn.output_channels is None
    assert cnn(torch.zeros(3, 1, 8, 8)).shape == (3, size)
    image = CNN((8, 8), 1, [4], 3, flatten=False)
    assert image.output_dim == (6, 6) and image.output_channels == 4


def test_rnn_steps_and_runs_trajectories_alike():
    from rsl_rl.modules import RNN
    from rsl_rl.utils import split_and_pad_trajectories

    rnn, obs, dones = RNN(3, 4, 1, "gru"), torch.randn(6, 2, 3), torch.zeros(6, 2)
    dones[2, 0] = 1
    outputs = []
    for t in range(6):
        outputs.append(rnn(obs[t]).squeeze(0))
        rnn.reset(dones[t])
    padded, masks = split_and_pad_trajectories(obs, dones)
    together = rnn(padded, masks, torch.zeros(1, padded.shape[1], 4))
    torch.testing.assert_close(together, torch.stack(outputs))


def test_empirical_normalization_has_mean_and_deviation_of_all_it_has_seen():
    from rsl_rl.modules import EmpiricalNormalization

    x = torch.randn(90, 4) * 3 + 2
    norm = EmpiricalNormalization(4, until=100)
    for part in x.split(30):
        norm.update(part)
    torch.testing.assert_close(norm.mean, x.mean(dim=0))
    torch.testing.assert_close(norm.std, x.std(dim=0, unbiased=False))
    torch.testing.assert_close(norm.inverse(norm(x)), x)
    norm.update(x)
    norm.update(x)  # beyond until
    assert norm.count == 180
    norm.eval().update(x)
    assert norm.count == 180 and set(norm.state_dict()) == {"_mean", "_var", "_std", "count"}
    torch.testing.assert_close(torch.jit.script(norm)(x), norm(x))


def test_the_functions_of_utils_do_what_they_did(tmp_path, root):
    from rsl_rl import utils

    assert isinstance(utils.resolve_nn_activation("Swish"), nn.SiLU)
    assert utils.resolve_optimizer("AdamW") is torch.optim.AdamW
    assert utils.resolve_callable("math:sqrt")(4) == utils.string_to_callable("math.sqrt")(4) == 2
    assert utils.resolve_callable(len) is len
    cfg = {"class_name": "collections.OrderedDict", "a": 1}
    assert utils.resolve_class(cfg)[1] == {"a": 1} and "class_name" in cfg
    obs = {"policy": torch.zeros(1), "critic": torch.zeros(1)}
    assert utils.resolve_obs_groups(obs, {}, ["actor", "critic"]) == {"actor": ["policy"], "critic": ["critic"]}
    with pytest.raises(ValueError, match=r"names 'polcy'.*'policy'"):
        utils.resolve_obs_groups(obs, {"actor": ["polcy"]}, [])
    with pytest.raises(ValueError, match="NaN in reward"):
        utils.check_nan(obs, torch.tensor([torch.nan]), torch.zeros(1))
    (path,) = utils.store_code_state(str(tmp_path), [str(root / "setup.py")])
    assert path.endswith(".diff")
    with pytest.raises(TypeError, match="got a int"):
        utils.resolve_callable(3)
