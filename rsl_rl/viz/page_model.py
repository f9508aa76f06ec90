"""Make the MJCF file of a robot independent of other files."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional, Tuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import FLOOR, height_field_size

_DIRECTORIES = {"mesh": "meshdir", "texture": "texturedir", "hfield": "assetdir", "skin": "assetdir"}


def read_model(path: Path, ground: Optional[HeightField] = None) -> Tuple[str, Dict[str, bytes]]:
    """Return a model as one text, and the files that it refers to by their names in the text.

    The geom "floor" becomes a height field of the size of the ground, whose heights are zero.
    """
    root = ElementTree.parse(path).getroot()
    _include(root, path.parent)
    folders = _folders(root, path.parent)
    files: Dict[str, bytes] = {}
    for tag, folder in folders.items():
        for element in root.iter(tag):
            for attribute, value in list(element.attrib.items()):
                if attribute.startswith("file"):
                    name = f"asset{len(files)}{Path(value).suffix}"
                    files[name] = (folder / value).read_bytes()
                    if attribute == "file" and "name" not in element.attrib:
                        element.set("name", Path(value).stem)  # as MuJoCo names it
                    element.set(attribute, name)
    if ground is not None:
        _replace_floor(root, ground)
    return ElementTree.tostring(root, encoding="unicode"), files


def _include(parent: Element, folder: Path) -> None:
    """Put the content of included files in place of the elements that include them."""
    for i, child in reversed(list(enumerate(parent))):
        if child.tag == "include":
            included = ElementTree.parse(folder / child.get("file", "")).getroot()
            parent[i : i + 1] = list(included)
    if any(child.tag == "include" for child in parent):
        return _include(parent, folder)
    for child in parent:
        _include(child, folder)


def _folders(root: Element, folder: Path) -> Dict[str, Path]:
    """Return the folder of the files of each kind of element; the settings of the compiler are removed."""
    settings: Dict[str, str] = {}
    for compiler in root.iter("compiler"):
        for name in ("assetdir", "meshdir", "texturedir", "strippath"):
            if name in compiler.attrib:
                settings[name] = compiler.attrib.pop(name)
    default = settings.get("assetdir", "")
    return {tag: folder / settings.get(name, default) for tag, name in _DIRECTORIES.items()}


def _replace_floor(root: Element, ground: HeightField) -> None:
    floor = next(geom for geom in root.iter("geom") if geom.get("name") == FLOOR)
    nx, ny = ground.heights.shape
    size, pos = height_field_size(ground)
    attributes = {"name": FLOOR, "nrow": str(ny), "ncol": str(nx), "size": " ".join(map(repr, size))}
    ElementTree.SubElement(ElementTree.SubElement(root, "asset"), "hfield", attributes)
    floor.attrib.pop("size", None)
    floor.attrib.update({"type": "hfield", "hfield": FLOOR, "pos": " ".join(map(repr, pos))})
