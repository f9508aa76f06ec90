"""Find friction, inertia, gains, delay, offsets and load of a robot from its logs."""

from rsl_rl.hardware.identification.identify import Estimate, Identification, identify
from rsl_rl.hardware.identification.recordings import Recording, read_recording

__all__ = ["Estimate", "Identification", "Recording", "identify", "read_recording"]
