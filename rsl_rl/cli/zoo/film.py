"""Film an exported policy for its entry of the zoo."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rsl_rl.cli import play
from rsl_rl.cli.command_line import parse

SECONDS = 6.0
FPS = 12.5
SIZE = 320, 240
"""Length, frames per second, and width and height [pixels] of a film: together about 100 kB."""

COMMANDS = ((0.0, (0.6, 0.0, 0.0)), (2.5, (0.4, 0.0, 0.8)), (4.5, (0.0, 0.3, 0.0)))
"""Time [s], and command vx, vy [m/s], yaw rate [rad/s] from then on, within the range of the training."""


def film(onnx: Path, task: str) -> bytes:
    """Return an animated picture, WebP, of one robot of the task that walks with a policy.

    ``onnx`` is the policy, beside its contract. No OpenGL driver is a VideoError.
    """
    from rsl_rl.cli.policy_files import load_policy_files
    from rsl_rl.evaluation.command_script import TimedCommand
    from rsl_rl.evaluation.playback import for_playback, make_clip, run_playback
    from rsl_rl.viz.video import write_film

    args = parse(play.Flags, "", from_run=False, argv=["--policy", str(onnx), "--task", task])
    (file,) = load_policy_files([str(onnx)], [], [], args.cfg.env, args.cfg.policy.actor_groups).values()
    env = for_playback(file.task, 1, SECONDS, None).build(args.cfg.sim_device, seed=args.cfg.seed)
    ranges = env.commands.sources["velocity"].ranges
    script = []
    for time, wanted in COMMANDS:
        vx, vy, yaw_rate = (min(max(x, low), high) for x, (low, high) in zip(wanted, ranges))
        script.append(TimedCommand(time, (vx, vy, yaw_rate)))
    clip = make_clip(run_playback(env, file.acting, SECONDS, script), env)
    stride = round(clip.fps / FPS)
    shown = clip._replace(
        poses=clip.poses[::stride],
        captions=[caption.partition("    ")[0] for caption in clip.captions[::stride]],
        fps=clip.fps / stride,
        points=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.webp"
        write_film(path, shown, SIZE)
        return path.read_bytes()
