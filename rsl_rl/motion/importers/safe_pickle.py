"""Read numbers, texts and arrays from a pickle without running any code of it.

A pickle is a program that may call any function of Python. Here the few names that arrays need lead to functions of
this file, which only build arrays; every other name is an error. Files of joblib have arrays between the commands of
the pickle.
"""

from __future__ import annotations

import io
import pickle
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import numpy as np

from rsl_rl.motion.clip import LARGEST
from rsl_rl.utils.files import read_file

MOST_ITEMS = 20_000_000
"""Items of the lists of a pickle that is read."""

_DEEPEST = 20


class _Dtype:
    """A type of numbers, as a pickle builds it."""

    def __init__(self, code: Any = "", *rest: Any):
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        self.order = state[1] if isinstance(state, tuple) and len(state) > 1 else "<"

    def build(self) -> np.dtype:
        """Return the type; anything but plain numbers and texts is an UnpicklingError."""
        if isinstance(self.code, np.dtype):
            return self.code
        code = str(self.code)
        if code[:1] not in "biufSU" or len(code) > 6:
            raise pickle.UnpicklingError(f"arrays of {code or 'nothing'} are not read")
        return np.dtype(f"{self.order}{code}" if self.order in ("<", ">") else code)


class _Array:
    """An array, as a pickle builds it."""

    def __init__(self, *arguments: Any):
        self.array = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.array = _shaped(data, dtype, shape, "F" if fortran else "C")


class _Between:
    """An array that joblib has written after the command that builds this object; its fields are joblib's."""

    shape: Tuple[int, ...]
    dtype: Any
    order: str


def _shaped(data: Any, dtype: Any, shape: Any, order: str = "C") -> np.ndarray:
    if not isinstance(data, (bytes, bytearray)):
        raise pickle.UnpicklingError("an array without its numbers, or of objects, is not read")
    own = dtype.build() if isinstance(dtype, _Dtype) else np.dtype(dtype)
    return np.frombuffer(bytes(data), own).reshape(shape, order="F" if order == "F" else "C").copy()


def _reconstruct(*arguments: Any) -> _Array:
    return _Array()


def _scalar(dtype: Any, data: Any = b"") -> Any:
    return _shaped(data, dtype, ())[()]


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
    found = _shaped(data, dtype, shape, str(order))
    return found if axes is None else found.transpose([int(axis) for axis in axes])


def _encode(text: Any, *encoding: Any) -> bytes:
    if not isinstance(text, str):
        raise pickle.UnpicklingError("it encodes something that is not a text")
    return text.encode("latin1")


def _ordered_dict(items: Any = ()) -> Dict[Any, Any]:
    return {_key(key): value for key, value in items}


def _key(key: Any) -> Any:
    """Return a key of a dict; one of nested tuples, whose hash may take for ever, is an UnpicklingError."""
    if not isinstance(key, (str, bytes, int, float, np.generic, type(None))):
        raise pickle.UnpicklingError(f"a dict has a {type(key).__name__} as a key, and only numbers and texts are read")
    return key


_ALLOWED: Dict[Tuple[str, str], Callable[..., Any]] = {
    **{
        (f"numpy.{core}.multiarray", name): function
        for core in ("core", "_core")
        for name, function in (("_reconstruct", _reconstruct), ("scalar", _scalar))
    },
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _ordered_dict,
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): _Between,
}


class _Reader(pickle._Unpickler):  # type: ignore[name-defined]  # the one in Python, which joblib's files need
    """An unpickler without code."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self._source = file

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name in a pickle."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only numbers, texts and arrays are read")
        return _ALLOWED[(module, name)]

    def _build(self) -> None:
        if not isinstance(self.stack[-2], (_Array, _Dtype, _Between)):  # type: ignore[attr-defined]
            raise pickle.UnpicklingError("it changes an object that is not an array")
        super().load_build()  # type: ignore[misc]
        if isinstance(self.stack[-1], _Between):  # type: ignore[attr-defined]
            self.stack[-1] = self._array_between(self.stack[-1])  # type: ignore[attr-defined]

    def _set_items(self) -> None:
        items = self.pop_mark()  # type: ignore[attr-defined]
        self.stack[-1].update(_ordered_dict(zip(items[::2], items[1::2])))  # type: ignore[attr-defined]

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()  # type: ignore[attr-defined]
        self.stack[-1][_key(key)] = value  # type: ignore[attr-defined]

    def _dict(self) -> None:
        items = self.pop_mark()  # type: ignore[attr-defined]
        self.append(_ordered_dict(zip(items[::2], items[1::2])))  # type: ignore[attr-defined]

    def _no_set(self) -> None:
        raise pickle.UnpicklingError("it holds a set, and only numbers, texts and arrays are read")

    def _array_between(self, own: _Between) -> np.ndarray:
        dtype = own.dtype.build() if isinstance(own.dtype, _Dtype) else np.dtype(own.dtype)
        if getattr(own, "numpy_array_alignment_bytes", None) is not None:
            self._source.read(self._source.read(1)[0])
        size = dtype.itemsize
        for length in own.shape:
            size *= int(length)
        if not 0 <= size <= LARGEST:
            raise pickle.UnpicklingError(f"an array of {size / 1e6:.0f} MB is too large")
        return _shaped(self._source.read(size), dtype, own.shape, own.order)

    dispatch = {  # noqa: RUF012
        **pickle._Unpickler.dispatch,  # type: ignore[attr-defined]
        pickle.BUILD[0]: _build,
        pickle.SETITEMS[0]: _set_items,
        pickle.SETITEM[0]: _set_item,
        pickle.DICT[0]: _dict,
        pickle.EMPTY_SET[0]: _no_set,
        pickle.FROZENSET[0]: _no_set,
    }


def load(path: Path) -> Any:
    """Return the content of a pickle or of a file of joblib; what is not numbers, texts and arrays is a ValueError."""
    content = read_file(path, LARGEST)
    try:
        if content[:1] == b"\x78":  # joblib's default compression
            unpacked = zlib.decompressobj()
            content = unpacked.decompress(content, LARGEST)
            if unpacked.unconsumed_tail:
                raise ValueError(f"it unpacks to more than {LARGEST / 1e6:.0f} MB")
        found = _Reader(io.BytesIO(content)).load()
        count, depth = _size(found, 0, {})
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if count > MOST_ITEMS:
            raise ValueError(f"its lists have more than {MOST_ITEMS:,} items")
        return _plain(found, {})
    except Exception as error:  # whatever a damaged pickle makes the reader do
        raise ValueError(f"{path} cannot be read as a pickle: {error or type(error).__name__}") from error


def _size(value: Any, depth: int, done: Dict[int, Tuple[int, int]]) -> Tuple[int, int]:
    """Return the number of items of nested lists and dicts, and how deeply they are nested. A list that occurs several
    times counts each time, because an array of it does; ``done`` has the results by identity."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if not isinstance(value, (dict, list, tuple)):
        return 1, 0
    if id(value) not in done:
        items = value.values() if isinstance(value, dict) else value
        found = [_size(item, depth + 1, done) for item in items]
        done[id(value)] = 1 + sum(count for count, _ in found), 1 + max((deep for _, deep in found), default=0)
    return done[id(value)]


def _plain(value: Any, done: Dict[int, Any]) -> Any:
    """Return a value with the arrays in place of what stands for them; ``done`` has the results by identity, for
    objects that occur several times."""
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, dict):
        done[id(value)] = {key: _plain(item, done) for key, item in value.items()}
        return done[id(value)]
    if isinstance(value, (list, tuple)):
        done[id(value)] = [_plain(item, done) for item in value]
        return done[id(value)]
    if isinstance(value, (np.ndarray, np.generic, str, bytes, int, float, bool, type(None))):
        return value
    raise ValueError(f"it holds a {type(value).__name__}, and only numbers, texts and arrays are read")
