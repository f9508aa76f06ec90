"""Enumerations and constants of ``gymapi``: each member is a name of the module too, as in ``gymapi.UP_AXIS_Z``."""

from __future__ import annotations

from enum import EnumMeta, IntEnum
from typing import Any, Dict, List


class ContactCollection(IntEnum):
    CC_NEVER, CC_LAST_SUBSTEP, CC_ALL_SUBSTEPS = range(3)


class CameraFollowMode(IntEnum):
    FOLLOW_POSITION, FOLLOW_TRANSFORM = range(2)


class CoordinateSpace(IntEnum):
    ENV_SPACE, LOCAL_SPACE, GLOBAL_SPACE = range(3)


class DofDriveMode(IntEnum):
    DOF_MODE_NONE, DOF_MODE_POS, DOF_MODE_VEL, DOF_MODE_EFFORT = range(4)


class DofType(IntEnum):
    DOF_INVALID, DOF_ROTATION, DOF_TRANSLATION = range(3)


class ImageType(IntEnum):
    IMAGE_COLOR, IMAGE_DEPTH, IMAGE_SEGMENTATION, IMAGE_OPTICAL_FLOW = range(4)


class IndexDomain(IntEnum):
    DOMAIN_ACTOR, DOMAIN_ENV, DOMAIN_SIM = range(3)


class JointType(IntEnum):
    (
        JOINT_INVALID,
        JOINT_FIXED,
        JOINT_REVOLUTE,
        JOINT_PRISMATIC,
        JOINT_BALL,
        JOINT_PLANAR,
        JOINT_FLOATING,
    ) = range(7)


class MeshNormalMode(IntEnum):
    FROM_ASSET, COMPUTE_PER_VERTEX, COMPUTE_PER_FACE = range(3)


class MeshType(IntEnum):
    MESH_NONE, MESH_COLLISION, MESH_VISUAL, MESH_VISUAL_AND_COLLISION = range(4)


class SimType(IntEnum):
    SIM_PHYSX, SIM_FLEX = range(2)


class SoftMaterialType(IntEnum):
    MAT_COROTATIONAL, MAT_NEOHOOKEAN = range(2)


class TendonType(IntEnum):
    TENDON_FIXED, TENDON_SPATIAL = range(2)


class TensorDataType(IntEnum):
    DTYPE_FLOAT32, DTYPE_UINT32, DTYPE_UINT64, DTYPE_UINT8, DTYPE_INT16 = range(5)


class UpAxis(IntEnum):
    UP_AXIS_Y, UP_AXIS_Z = range(2)


class UsdMaterialMode(IntEnum):
    USD_MATERIAL_PREVIEW_SURFACE, USD_MATERIAL_MDL, USD_MATERIAL_DISPLAY_COLOR = range(3)


_KEYS = """
SPACE APOSTROPHE COMMA MINUS PERIOD SLASH 0 1 2 3 4 5 6 7 8 9 SEMICOLON EQUAL A B C D E F G H I J K L M N O P Q R S T U
V W X Y Z LEFT_BRACKET BACKSLASH RIGHT_BRACKET GRAVE_ACCENT ESCAPE TAB ENTER BACKSPACE INSERT DEL RIGHT LEFT DOWN UP
PAGE_UP PAGE_DOWN HOME END CAPS_LOCK SCROLL_LOCK NUM_LOCK PRINT_SCREEN PAUSE F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12
NUMPAD_0 NUMPAD_1 NUMPAD_2 NUMPAD_3 NUMPAD_4 NUMPAD_5 NUMPAD_6 NUMPAD_7 NUMPAD_8 NUMPAD_9 NUMPAD_DEL NUMPAD_DIVIDE
NUMPAD_MULTIPLY NUMPAD_SUBTRACT NUMPAD_ADD NUMPAD_ENTER NUMPAD_EQUAL LEFT_SHIFT LEFT_CONTROL LEFT_ALT LEFT_SUPER
RIGHT_SHIFT RIGHT_CONTROL RIGHT_ALT RIGHT_SUPER MENU
"""

_MOUSE = """
LEFT_BUTTON RIGHT_BUTTON MIDDLE_BUTTON FORWARD_BUTTON BACK_BUTTON SCROLL_RIGHT SCROLL_LEFT SCROLL_UP SCROLL_DOWN
MOVE_RIGHT MOVE_LEFT MOVE_UP MOVE_DOWN
"""

KeyboardInput = IntEnum("KeyboardInput", [(f"KEY_{name}", i) for i, name in enumerate(_KEYS.split())])
MouseInput = IntEnum("MouseInput", [(f"MOUSE_{name}", i) for i, name in enumerate(_MOUSE.split())])

ENUMERATIONS: List[Any] = [
    kind for kind in list(globals().values()) if isinstance(kind, EnumMeta) and kind is not IntEnum
]
"""All of the above."""

CONSTANTS: Dict[str, int] = {
    "AXIS_NONE": 0,
    "AXIS_X": 1,
    "AXIS_Y": 2,
    "AXIS_Z": 4,
    "AXIS_TRANSLATION": 7,
    "AXIS_TWIST": 8,
    "AXIS_SWING_1": 16,
    "AXIS_SWING_2": 32,
    "AXIS_ROTATION": 56,
    "AXIS_ALL": 63,
    "DEFAULT_VIEWER_HEIGHT": 900,
    "DEFAULT_VIEWER_WIDTH": 1600,
    "INVALID_HANDLE": -1,
    "RIGID_BODY_NONE": 0,
    "RIGID_BODY_DISABLE_GRAVITY": 1,
    "RIGID_BODY_DISABLE_SIMULATION": 2,
    "RIGID_BODY_ENABLE_GYROSCOPIC_FORCES": 4,
    "STATE_NONE": 0,
    "STATE_POS": 1,
    "STATE_VEL": 2,
    "STATE_ALL": 3,
}


def module_constants() -> Dict[str, int]:
    """Return every member of the enumerations and every plain constant, by name."""
    members = {member.name: member for kind in ENUMERATIONS for member in kind}
    return {**members, **CONSTANTS}
