"""Show robots that a user steers, and the newest checkpoints of a training: `rsl-rl play --viewer` and `--keyboard`."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, List, Optional, Tuple

from rsl_rl.cli.command_line import Arguments, reject_changed_flags
from rsl_rl.cli.errors import print_line, usage_errors
from rsl_rl.utils.text import one_line

if TYPE_CHECKING:
    from rsl_rl.evaluation.conditions import ActingPolicy
    from rsl_rl.evaluation.teleop import TeleopDisplay
    from rsl_rl.tasks.legged_robot import LeggedRobot
    from rsl_rl.viz.frame import Choice

_POLL_PERIOD = 1.0  # time between two looks into the run folder [s]


def show_viewer(args: Arguments, policy: Optional[Tuple[Path, ActingPolicy]] = None) -> int:
    """Run robots in real time with the user's command, until the window is closed or Ctrl-C.

    ``policy`` is a file and how it acts, in place of the checkpoints of a run.
    """
    flags = args.flags
    with usage_errors():
        from rsl_rl.evaluation.playback import check_command
        from rsl_rl.evaluation.teleop import open_native_viewer, open_web_viewer, teleoperate, terrains_of
        from rsl_rl.sim.base import choose_backend, is_available
        from rsl_rl.utils.seeding import require_device

        if flags.viewer and flags.keyboard:
            raise ValueError("--viewer and --keyboard each show the robot; use only one of them")
        reject_changed_flags(flags, "--viewer and --keyboard show robots until they are closed", "seconds", "commands")
        if flags.keyboard:
            reject_changed_flags(flags, "--keyboard shows one robot", "num_envs")
        if flags.follow and flags.checkpoint != -1:
            raise ValueError(f"--follow loads the newest checkpoints; leave out --checkpoint {flags.checkpoint}")
        require_device("sim_device", args.cfg.sim_device)
        note = check_command(args.cfg.env.commands, flags.command)
        stage = Stage(args) if policy is None else FileStage(args, *policy)
        command = flags.command or (0.0, 0.0, 0.0)
        if flags.viewer:
            backend = choose_backend(args.cfg.env.sim.backend, args.cfg.sim_device)
            terrains = terrains_of(args.cfg.env) if is_available(backend) else ()
            display, usage = open_web_viewer(stage.env, command, flags.port, stage.choice, terrains)
        else:
            display, usage = open_native_viewer(stage.env, command, stage.choice)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it by default
    try:
        for line in (stage.status, note, usage):
            if line:
                print_line(line)
        while True:
            display.present(stage.status, stage.env.sim.ground)
            teleoperate(stage.env, stage.policy, display, lambda: stage.is_outdated(display))
            if not display.is_open():
                break
            stage.update(display.choice)
            print_line(stage.status)
    except KeyboardInterrupt:
        print_line("")
    finally:
        display.close()
    return 0


class Stage:
    """The robots and the policy that a user has chosen: a checkpoint of a run on a type of ground."""

    env: LeggedRobot
    policy: ActingPolicy

    def __init__(self, args: Arguments):
        from rsl_rl.utils.checkpoints import checkpoint_id
        from rsl_rl.viz.frame import ALL_LEVELS, NEWEST, Choice

        flags = args.flags
        self._cfg, self._run = args.cfg, args.run
        self._num_robots = 1 if flags.num_envs is None else flags.num_envs
        self._next_look, self._files, self._ground = 0.0, self._list_checkpoints(), ("", ALL_LEVELS)
        self.choice = Choice(NEWEST if flags.follow else str(flags.checkpoint), flags.terrain, flags.level)
        path = self._load(self.choice)
        if not flags.follow and self._run is not None:
            self.choice = self.choice._replace(checkpoint=str(checkpoint_id(path)))

    def _load(self, choice: Choice) -> Path:
        """Build robots and policy, and return the checkpoint; a choice that cannot be shown is a ValueError."""
        from rsl_rl.evaluation.conditions import on_terrain
        from rsl_rl.evaluation.teleop import MAX_ROBOTS, for_teleop

        if not 1 <= self._num_robots <= MAX_ROBOTS:
            raise ValueError(f"--num_envs {self._num_robots}: the viewer shows 1 to {MAX_ROBOTS} robots")
        cfg, ground = self._cfg, (choice.terrain, choice.level)
        env = getattr(self, "env", None)
        if env is None or ground != self._ground:
            task = on_terrain(for_teleop(cfg.env, self._num_robots), *ground)
            env = task.build(cfg.sim_device, seed=cfg.seed)
        policy, path = self._policy_for(env, choice.checkpoint)
        self.env, self.policy, self._ground = env, policy, ground
        self.status = f"playing {path}"
        return path

    def _policy_for(self, env: LeggedRobot, which: str) -> Tuple[ActingPolicy, Path]:
        """Return the policy of a checkpoint, and its file."""
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.checkpoints import BEST
        from rsl_rl.viz.frame import NEWEST

        assert self._run is not None  # a stage without one has its own policy
        iteration = which if which == BEST else -1 if which == NEWEST else int(which)
        loaded = load_policy(self._cfg, env, self._run, iteration)
        return loaded.policy, loaded.checkpoint

    def update(self, choice: Choice) -> None:
        """Load what the user has chosen; if that fails, go on with what there is and say why in the status."""
        self.choice = choice
        try:
            self._load(choice)
        except (ValueError, OSError, MemoryError, RuntimeError) as error:
            self.status = one_line(f"this choice cannot be shown: {error}")

    def is_outdated(self, display: TeleopDisplay) -> bool:
        """Return whether the user has chosen something else, or the training has saved a newer checkpoint.

        New files in the run folder are offered to the user.
        """
        from rsl_rl.viz.frame import NEWEST

        if display.choice != self.choice:
            return True
        if time.monotonic() < self._next_look:
            return False
        first, self._next_look = self._next_look == 0.0, time.monotonic() + _POLL_PERIOD
        before, self._files = self._files, self._list_checkpoints()
        if first or self._files != before:
            display.offer([name for name, _ in self._files])
        return self.choice.checkpoint == NEWEST and self._files[-1:] != before[-1:]

    def _list_checkpoints(self) -> List[Tuple[str, int]]:
        """Return name and time of change of the checkpoints of the run, the newest last."""
        from rsl_rl.utils.checkpoints import best_path, checkpoint_id, checkpoints_of

        if self._run is None:
            return []
        files = (best_path(self._run), *checkpoints_of(self._run))
        return [(str(checkpoint_id(path)), changed) for path in files for changed in _time_of_change(path)]


class FileStage(Stage):
    """The robots and the policy of one file, on a type of ground that a user has chosen."""

    def __init__(self, args: Arguments, path: Path, policy: ActingPolicy):
        self._file = (policy, path)
        super().__init__(args)

    def _policy_for(self, env: LeggedRobot, which: str) -> Tuple[ActingPolicy, Path]:
        return self._file


def _time_of_change(path: Path) -> Tuple[int, ...]:
    """Return the time at which a file was changed, or nothing if there is none, which a training may have removed."""
    try:
        return (path.stat().st_mtime_ns,)
    except OSError:
        return ()
