"""Adam over all parameters at once, with the length of gradients limited on the way."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

import torch
from torch import Tensor, nn


class FlatAdam(torch.optim.Optimizer):
    """Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980) that never asks the device for a number.

    Parameters and their gradients are moved into one tensor each, so that a step is some twenty operations however
    many layers there are; the gradients of each of ``groups`` are limited to ``max_grad_norm`` on their own. The step
    size is a tensor on the device, and may be written to. The state dict is that of torch.optim.Adam over
    ``parameters`` in their order.
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
        with torch.no_grad():
            self._values = torch.cat([parameter.detach().reshape(-1) for parameter in self._params])
        self._gradients, self._first, self._second = (torch.zeros_like(self._values) for _ in range(3))
        self._step = torch.zeros((), device=self._values.device)
        for parameter, value, gradient in zip(self._params, self._views(self._values), self._views(self._gradients)):
            parameter.data, parameter.grad = value, gradient
        self._gradient_groups = self._gradients.split([sum(p.numel() for p in group) for group in groups])
        self._name_state()

    def _views(self, flat: Tensor) -> List[Tensor]:
        """Cut a flat tensor into one of each parameter's shape."""
        parts = flat.split([parameter.numel() for parameter in self._params])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self._params)]

    def _name_state(self) -> None:
        """Let the state dict show the flat tensors as each parameter's own."""
        first, second = (dict(zip(self._params, self._views(flat))) for flat in (self._first, self._second))
        self.state.clear()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] = {"step": self._step, "exp_avg": first[parameter], "exp_avg_sq": second[parameter]}

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to zero; their tensors stay, and whoever adds to them adds to what ``step`` reads."""
        self._gradients.zero_()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Limit the gradients and move the parameters against them."""
        assert closure is None, "this optimiser takes no closure"
        for group in self._gradient_groups:
            group.mul_((self.max_grad_norm / (torch.linalg.vector_norm(group) + 1e-6)).clamp(max=1.0))
        settings = self.param_groups[0]
        beta1, beta2 = settings["betas"]
        self._step.add_(1.0)
        self._first.lerp_(self._gradients, 1.0 - beta1)
        self._second.mul_(beta2).addcmul_(self._gradients, self._gradients, value=1.0 - beta2)
        # 1 - beta^t, without the rounding of a float32 close to one
        unbias_first, unbias_second = (-torch.expm1(self._step * math.log(beta)) for beta in (beta1, beta2))
        scale = self._second.sqrt().div_(unbias_second.sqrt()).add_(settings["eps"])
        self._values.addcmul_(torch.div(self._first, scale, out=scale), -settings["lr"] / unbias_first)

    def state_dict(self) -> Dict[str, Any]:
        """Return the state as torch.optim.Adam keeps it, with a count of steps for each parameter."""
        state = super().state_dict()
        state["state"] = {i: {**own, "step": self._step.clone()} for i, own in state["state"].items()}
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Take over the state of an Adam over the same parameters; a state of other shapes is a ValueError."""
        learning_rate = self.param_groups[0]["lr"]
        super().load_state_dict(state_dict)
        loaded = float(self.param_groups[0]["lr"])
        for group in self.param_groups:
            group["lr"] = learning_rate
        learning_rate.fill_(loaded)
        for name, flat in (("exp_avg", self._first), ("exp_avg_sq", self._second)):
            for parameter, view in zip(self._params, self._views(flat)):
                value = self.state[parameter].get(name, torch.zeros_like(view))
                if value.shape != view.shape:
                    raise ValueError(f"{name} of a parameter {list(view.shape)} has the shape {list(value.shape)}")
                view.copy_(value)
        steps = [self.state[parameter].get("step", 0) for parameter in self._params]
        self._step.fill_(float(steps[0]))
        self._name_state()
