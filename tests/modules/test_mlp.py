import pytest
import torch
from torch import nn

from rsl_rl.config.policy import ACTIVATIONS
from rsl_rl.modules import get_activation, mlp


def test_mlp_has_the_layers_of_its_arguments():
    net = mlp(4, (8, 6), 2, "elu")
    assert [(m.in_features, m.out_features) for m in net if isinstance(m, nn.Linear)] == [(4, 8), (8, 6), (6, 2)]
    assert isinstance(net[-1], nn.Linear)  # nothing after the last layer
    assert list(net.state_dict()) == [f"{i}.{part}" for i in (0, 2, 4) for part in ("weight", "bias")]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_get_activation_knows_every_name_of_the_config(name):
    assert get_activation(name)(torch.zeros(3)).shape == (3,)


def test_get_activation_with_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"'swish'; allowed: elu, .*gelu"):
        get_activation("swish")
