"""Check what browsers send to the web viewer before the package viser reads it."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

import msgspec
import viser.infra

_SERVED = ("GuiUpdateMessage", "ViewerCameraMessage", "CommandTriggerMessage", "SceneNodeDragMessage")
"""Messages that the page needs: a changed element of the panel, a moved camera, a key, a robot that the mouse drags.
Others could upload files or open a tunnel to the internet."""

_LONGEST_TEXT = 200  # in an element of the panel


def refusal_of_message(message: Union[str, bytes]) -> Optional[str]:
    """Return why a message is refused; None if it is not."""
    try:
        content = msgspec.msgpack.decode(message)  # type: ignore[arg-type]  # text is an error
        kind = {one.__name__: one for one in viser.infra.Message.get_subclasses()}[content.pop("type")]
        read = msgspec.convert(content, kind)
    except Exception as error:  # a malformed message can cause any error
        return f"it cannot be read ({type(error).__name__})"
    if kind.__name__ not in _SERVED:
        return f"{kind.__name__} is not served"
    if not set(content) <= set(kind.__annotations__):
        return f"a {kind.__name__} has unknown fields"
    if kind.__name__ == "GuiUpdateMessage" and not _is_value(content["updates"]):
        return "an element of the panel takes a number, a text or a truth value"
    if kind.__name__ == "ViewerCameraMessage" and not all(map(_is_finite, vars(read).values())):
        return "a camera has numbers that are not finite"
    if kind.__name__ == "SceneNodeDragMessage" and not _is_drag(read):
        return "a drag has a long name or numbers that are not finite"
    return None


def _is_value(updates: Any) -> bool:
    """Return whether updates of an element give its value and nothing else."""
    value = updates.get("value")
    return list(updates) == ["value"] and isinstance(value, (bool, int, float, str)) and _is_finite(value)


def _is_drag(read: Any) -> bool:
    """Return whether a drag of an object has names of a usual length and finite places."""
    places = (read.start_position, read.start_screen_pos, read.end_position, read.end_screen_pos)
    return all(map(_is_finite, (*places, read.name, read.owner)))


def _is_finite(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_finite, value))
    return len(value) <= _LONGEST_TEXT if isinstance(value, str) else math.isfinite(value)
