"""Train, play and evaluate on rough ground, by commands."""

import json

SMALL = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
)  # fmt: skip


def test_train_play_and_evaluate(rsl_rl_here, tmp_path, capsys):
    task = ("--task", "go2_rough", "--log_root", str(tmp_path))
    assert rsl_rl_here("train", *task, *SMALL) == 0
    (run,) = (tmp_path / "go2_rough").iterdir()
    assert (run / "terrain.png").stat().st_size > 10_000
    (line,) = (run / "metrics.jsonl").read_text().splitlines()
    levels = {name: value for name, value in json.loads(line).items() if "terrain_level" in name}
    assert len(levels) >= 6 and 0 <= levels["episode/terrain_level"] <= 1

    where = (*task, "--terrain", "stairs_up", "--level")
    assert rsl_rl_here("play", *where, "5", "--num_envs", "1", "--seconds", "0.1", "--no_video", "--no_plot") == 0
    capsys.readouterr()
    assert rsl_rl_here("evaluate", *where, "2", "--num_envs", "4", "--seconds", "0.1", "--report", "none") == 0
    assert "on stairs_up, level 2" in " ".join(capsys.readouterr().out.split())
    assert rsl_rl_here("play", *where, "99") == 2
    assert "--level 99: give a level from 0 to 9" in capsys.readouterr().err
