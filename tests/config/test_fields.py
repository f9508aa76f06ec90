"""Every setting has an effect: some class reads it."""

import ast
from dataclasses import fields, is_dataclass

from rsl_rl.config import algorithm, experiment, extensions, learn, mdp, policy, sim, task, terrain, toy


def test_every_field_of_a_config_is_read_outside_of_the_configs(root):
    """As an attribute, as a parameter of a constructor, or by its name."""
    # by methods of their configs
    read = {"teacher_updates", "final_entropy_coef", "final_desired_kl", "annealing_share"}
    for path in (root / "rsl_rl").rglob("*.py"):
        if "config" in path.relative_to(root / "rsl_rl").parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            read |= {getattr(node, name) for name in ("attr", "arg") if isinstance(getattr(node, name, None), str)}
            read |= {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()
    modules = (algorithm, experiment, extensions, learn, mdp, policy, sim, task, terrain, toy)
    configs = {
        cls for module in modules for cls in vars(module).values() if isinstance(cls, type) and is_dataclass(cls)
    }
    unread = {f"{cls.__name__}.{f.name}" for cls in configs for f in fields(cls) if f.name not in read}
    assert len(configs) > 40 and unread == set()
