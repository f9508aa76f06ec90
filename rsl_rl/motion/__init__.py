"""Reference motions of robots: clips, what makes and edits them, and importers of other formats."""

from rsl_rl.motion.clip import Clip, ClipSet, Frame, load_clip, save_clip

__all__ = ["Clip", "ClipSet", "Frame", "load_clip", "save_clip"]
