"""Commands by time, from a file."""

import os

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.evaluation.command_script import TimedCommand, read_commands
from rsl_rl.evaluation.playback import for_playback, run_playback

SCRIPT = "# from standing to running and back\n0 0 0 0\n0.1, 1.0, 0, 0\n\n0.2 -1.0 0.2 -0.5\n"


class Still:
    def __call__(self, obs):
        return torch.zeros(len(obs["policy"]), 12)

    def reset(self, dones=None):
        pass


@pytest.fixture
def file(tmp_path):
    return tmp_path / "commands.txt"


def test_commands_are_read_in_order(file):
    file.write_text(SCRIPT)
    assert read_commands(file) == [
        TimedCommand(0.0, (0.0, 0.0, 0.0)),
        TimedCommand(0.1, (1.0, 0.0, 0.0)),
        TimedCommand(0.2, (-1.0, 0.2, -0.5)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 1 0\n", "line 1: '0 1 0'; give four numbers"),
        (b"0 1 0 0\n1 fast 0 0\n", "line 2: '1 fast 0 0'; give four numbers"),
        (b"0 1 0 inf\n", "line 1: '0 1 0 inf'; give four numbers"),
        (b"1 0 0 0\n0.5 0 0 0\n", "line 2: the time 0.5 s is too early"),
        (b"-1 0 0 0\n", "line 1: the time -1 s is too early"),
        (b"0 0 0 0\n1e30 0 0 0\n", "line 2: the time 1e+30 s is too late"),
        (b"# nothing\n", "has no commands; give a line"),
        (b"\xff\xfe0 0 0 0", "is not a text file"),
    ],
)
def test_wrong_file_is_an_error_with_the_line(file, content, message):
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"commands\.txt") as caught:
        read_commands(file)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_pipe_in_place_of_a_file_is_an_error_and_is_not_waited_for(file):
    os.mkfifo(file)
    with pytest.raises(ValueError, match="is not a file; give a file"):
        read_commands(file)


def test_playback_gives_all_robots_each_command_when_its_time_has_come(file):
    file.write_text(SCRIPT)
    env = for_playback(Go2Flat().env, 2, 0.4, None).build("cpu", seed=0)
    commands = run_playback(env, Still(), 0.4, read_commands(file))["command"]  # [steps, robots, 3]
    dt = env.cfg.sim.control_dt
    expected = [(0.0, 0.0, 0.0)] * round(0.1 / dt) + [(1.0, 0.0, 0.0)] * round(0.1 / dt)
    expected += [(-1.0, 0.2, -0.5)] * (round(0.4 / dt) - len(expected))
    assert torch.equal(commands, torch.tensor(expected).unsqueeze(1).expand(-1, 2, -1))
