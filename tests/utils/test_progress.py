"""Lines on the progress of a long computation."""

from rsl_rl.utils.progress import ProgressLines


def test_progress_lines_come_at_most_once_a_period_with_the_time_left():
    now, lines = [0.0], []
    progress = ProgressLines("joystick", period=10.0, clock=lambda: now[0], print_line=lines.append)
    for second in range(1, 101):
        now[0] = float(second)
        progress(second / 200)
    assert len(lines) == 10
    assert lines[0] == "joystick: 5% done, about 3:10 min left"
    assert lines[-1] == "joystick: 50% done, about 1:40 min left"


def test_progress_lines_of_a_short_computation_are_none():
    lines = []
    progress = ProgressLines("joystick", clock=lambda: 0.0, print_line=lines.append)
    for share in (0.0, 0.5, 1.0):
        progress(share)
    assert lines == []
