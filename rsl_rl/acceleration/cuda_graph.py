"""Functions of tensors that run as one CUDA graph: recorded once, replayed from then on."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

_WARM_UP_CALLS = 3
"""Ordinary calls before a recording, in which libraries and compilers set themselves up."""


class GraphedFunction:
    """A function that launches all its kernels as one graph.

    The function takes and returns tensors, or tuples of them, and may change other tensors, such as parameters, in
    place; it must not synchronise with the device. Its Python code runs during the first calls only. A graph is
    recorded for each set of shapes, and of arguments that are not tensors. The returned tensors are overwritten by the
    next call.
    """

    def __init__(self, function: Callable[..., Any], device: torch.device):
        self._function = function
        self._device = device
        self._stream: Optional[torch.cuda.Stream] = None  # of the calls before a recording
        self._num_calls: Dict[Tuple[Any, ...], int] = {}
        self._recordings: Dict[Tuple[Any, ...], Recording] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves = tree_flatten(arguments)[0]
        # A recording keeps its arguments, so that no other object gets the id of one of them.
        key = tuple((tuple(x.shape), x.dtype) if isinstance(x, Tensor) else id(x) for x in leaves)
        if key not in self._recordings:
            self._num_calls[key] = self._num_calls.get(key, 0) + 1
            if self._num_calls[key] <= _WARM_UP_CALLS:
                return self._run_aside(arguments)
            self._recordings[key] = self._record(arguments)
        return self._recordings[key].replay(leaves)

    def _run_aside(self, arguments: Tuple[Any, ...]) -> Any:
        """Call the function on a separate stream, as torch requires before a recording."""
        with torch.cuda.device(self._device):
            self._stream = self._stream or torch.cuda.Stream()
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                results = self._function(*arguments)
            torch.cuda.current_stream().wait_stream(self._stream)
        return results

    def _record(self, arguments: Tuple[Any, ...]) -> Recording:
        graph = torch.cuda.CUDAGraph()
        inputs, own_arguments = own_tensors(arguments)
        with torch.cuda.device(self._device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results = self._function(*own_arguments)
        return Recording(inputs, results, graph.replay)


class Recording:
    """A recorded call: it reads ``inputs``, and ``run`` writes ``results``."""

    def __init__(self, inputs: List[Any], results: Any, run: Callable[[], None]):
        self.inputs, self.results, self.run = inputs, results, run

    def replay(self, leaves: List[Any]) -> Any:
        for own, given in zip(self.inputs, leaves):
            if isinstance(own, Tensor):
                own.copy_(given)
        self.run()
        return self.results


def own_tensors(arguments: Tuple[Any, ...]) -> Tuple[List[Any], Tuple[Any, ...]]:
    """Copy the tensors of some arguments; return the leaves of the copy, and the copy."""
    leaves, structure = tree_flatten(arguments)
    copies = [x.clone() if isinstance(x, Tensor) else x for x in leaves]
    return copies, tree_unflatten(copies, structure)
