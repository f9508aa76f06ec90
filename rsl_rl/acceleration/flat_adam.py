"""Adam over all parameters at once, with clipping of gradient norms."""

from __future__ import annotations

import inspect
import math
from typing import Any, Dict, List, Sequence

import torch
from torch import Tensor, nn

_add_param_group, _state_dict, _load_state_dict = (
    inspect.unwrap(getattr(torch.optim.Optimizer, name))
    for name in ("add_param_group", "state_dict", "load_state_dict")
)  # torch wraps them for torch.compile, which does not see them here, and which takes a second to import

_NUMBERS_AT_ONCE = 1 << 16
"""Parameters whose values, gradients and moments fit into the cache of one CPU core."""


class FlatAdam(torch.optim.Optimizer):
    """Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980) without host synchronisation, which skips steps whose
    gradients are not finite.

    Parameters and their gradients are moved into one tensor each, so that a step is some twenty operations however
    many layers there are. The gradient norm of each of ``groups`` is clipped to ``max_grad_norm``. ``learning_rate`` is
    a tensor on the device, and may be written to. The state dict is that of torch.optim.Adam over ``parameters`` in
    their order.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        groups: Sequence[Sequence[nn.Parameter]],
        learning_rate: Tensor,
        max_grad_norm: float,
    ):
        self._params: List[nn.Parameter] = [parameter for group in groups for parameter in group]
        if sorted(map(id, parameters)) != sorted(map(id, self._params)):
            raise ValueError("the groups must hold every parameter once")
        defaults = dict(lr=learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False)
        super().__init__(list(parameters), defaults)
        self.max_grad_norm = max_grad_norm
        self._learning_rate = learning_rate
        size = sum(_padded_size(parameter) for parameter in self._params)
        self._values = self._params[0].new_zeros(size, requires_grad=False)
        self._gradients, self._first, self._second = (torch.zeros_like(self._values) for _ in range(3))
        self._step = torch.zeros((), device=self._values.device)
        self._gradient_groups = self._gradients.split([sum(map(_padded_size, group)) for group in groups])
        part = _NUMBERS_AT_ONCE if self._values.device.type == "cpu" else size
        flat = self._values, self._gradients, self._first, self._second
        self._parts = list(zip(*(tensor.split(part) for tensor in flat)))  # a step is computed part by part
        self.attach()
        self._name_state()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Add the parameters, as torch.optim.Optimizer does when it is constructed."""
        _add_param_group(self, param_group)

    @torch.no_grad()
    def attach(self) -> None:
        """Move parameters and gradients back into the flat tensors.

        Setting gradients to None and assigning to ``parameter.data`` detach them. Values are kept.
        """
        for parameter, value, gradient in zip(self._params, self._views(self._values), self._views(self._gradients)):
            if parameter.data_ptr() != value.data_ptr():
                value.copy_(parameter)
                parameter.data = value
            if parameter.grad is None or parameter.grad.data_ptr() != gradient.data_ptr():
                parameter.grad = gradient

    def _views(self, flat: Tensor) -> List[Tensor]:
        """Cut a flat tensor into one of each parameter's shape."""
        parts = flat.split([_padded_size(parameter) for parameter in self._params])
        return [part[: p.numel()].view(p.shape) for part, p in zip(parts, self._params)]

    def _name_state(self) -> None:
        """Make views of the flat tensors the state of each parameter."""
        first, second = (dict(zip(self._params, self._views(flat))) for flat in (self._first, self._second))
        self.state.clear()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] = {"step": self._step, "exp_avg": first[parameter], "exp_avg_sq": second[parameter]}

    @property
    def gradients(self) -> Sequence[Tensor]:
        """The gradients of all parameters, as one tensor."""
        return (self._gradients,)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to zero, in the tensors that ``step`` reads."""
        self._gradients.zero_()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Clip the gradients and take a step, unless a gradient is not finite."""
        assert closure is None, "this optimiser takes no closure"
        self.step_where_finite(torch.ones_like(self._step).bool())

    @torch.no_grad()
    def step_where_finite(self, usable: Tensor) -> Tensor:
        """Take a step if ``usable``, a bool on the device, and every gradient is finite; return whether it was taken.

        Otherwise parameters and state stay the same bit by bit, and gradients are zero.
        """
        norms = torch.stack([torch.linalg.vector_norm(group) for group in self._gradient_groups])
        taken = norms.isfinite().all().logical_and(usable)
        shrinking = (self.max_grad_norm / (norms + 1e-6)).clamp(max=1.0) * taken
        for group, factor in zip(self._gradient_groups, shrinking.unbind()):
            group.mul_(factor)
        settings = self.param_groups[0]
        beta1, beta2 = settings["betas"]
        self._step.add_(taken)
        steps = self._step.clamp(min=1.0)
        to_first, kept_second = taken * (1.0 - beta1), torch.where(taken, beta2, 1.0)
        # 1 - beta^t, without the rounding of a float32 close to one
        unbias_first, unbias_second = (-torch.expm1(steps * math.log(beta)) for beta in (beta1, beta2))
        unbias_scale, change = unbias_second.sqrt(), -settings["lr"] / unbias_first * taken
        for values, gradients, first, second in self._parts:
            gradients.nan_to_num_(0.0, 0.0, 0.0)  # zero times what is not finite is not zero
            first.lerp_(gradients, to_first)
            second.mul_(kept_second).addcmul_(gradients, gradients, value=1.0 - beta2)
            scale = second.sqrt().div_(unbias_scale).add_(settings["eps"])
            values.addcmul_(torch.div(first, scale, out=scale), change)
        return taken

    def state_dict(self) -> Dict[str, Any]:
        """Return the state as torch.optim.Adam keeps it, with a count of steps for each parameter."""
        state = _state_dict(self)
        state["state"] = {i: {**own, "step": self._step.clone()} for i, own in state["state"].items()}
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Load the state of an Adam over the same parameters; a state of other shapes is a ValueError."""
        for i, parameter in enumerate(self.param_groups[0]["params"]):
            for name in ("exp_avg", "exp_avg_sq"):
                moment = state_dict["state"].get(i, {}).get(name, parameter)
                if moment.shape != parameter.shape:
                    raise ValueError(
                        f"{name} of a parameter {list(parameter.shape)} has the shape {list(moment.shape)}"
                    )
        _load_state_dict(self, state_dict)
        self._learning_rate.fill_(float(self.param_groups[0]["lr"]))
        self.param_groups[0]["lr"] = self._learning_rate
        for name, flat in (("exp_avg", self._first), ("exp_avg_sq", self._second)):
            for parameter, view in zip(self._params, self._views(flat)):
                view.copy_(self.state[parameter].get(name, torch.zeros_like(view)))
        self._step.fill_(max(float(self.state[parameter].get("step", 0)) for parameter in self._params))
        self._name_state()


def _padded_size(parameter: Tensor) -> int:
    """Return the size of a parameter in a flat tensor, padded to 64 bytes."""
    return -(-parameter.numel() // 16) * 16
