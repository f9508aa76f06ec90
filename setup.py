"""Package metadata. The distribution is called rsl-rl-lib because a distribution of that name already owns the import
name rsl_rl."""

import ast
import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "rsl_rl" / "__init__.py").read_text()).group(1)

# The wheel installs these folders as packages; under their own names they would hide packages of other projects.
FOLDERS = {
    "rsl_rl_benchmarks": "benchmarks",
    "rsl_rl_configs": "configs",
    "rsl_rl_deploy": "deploy",
    "rsl_rl_zoo": "zoo",
}


def experiments():
    """Return the dict PATHS of configs/__init__.py, read without importing it."""
    for node in ast.parse((HERE / "configs" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PATHS":
            return ast.literal_eval(node.value)
    raise SystemExit("configs/__init__.py has no PATHS")


EXTRAS = {
    "sim": ["mujoco>=4.0", "matplotlib"],
    "warp": ["mujoco>=4.0", "mujoco-warp>=4.0"],
    "export": ["onnx", "onnxscript", "onnxruntime"],
    "video": ["mujoco>=4.0", "imageio", "imageio-ffmpeg"],
    "viewer": ["mujoco>=4.0", "viser>=1.1.1", "trimesh"],
    "wandb": ["wandb"],
    "bags": ["rosbags"],
    "sweep": ["optuna>=4.2"],
    "gymnasium": ["gymnasium>=1.1"],
    "identify": ["mujoco>=4.0", "matplotlib"],
    "motion": ["mujoco>=4.0", "pybvh>=0.9"],
    "hub": ["huggingface-hub>=1.0"],
    "docs": ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"],
    "dev": [
        "pytest", "pytest-cov", "pytest-xdist", "filelock", "hypothesis", "GitPython", "gymnasium>=1.1", "playwright",
        "ruff", "pyright[nodejs]", "vermin", "isaacgym-stubs==1.1rc4", "jsonschema", "rosbags", "scipy",
    ],
}  # fmt: skip

setup(
    name="rsl-rl-lib",
    version=VERSION,
    description="PPO for legged robots: train a policy on thousands of simulated robots in minutes",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    packages=[
        *find_packages(include=["rsl_rl", "rsl_rl.*"]),
        *FOLDERS,
        *(f"rsl_rl_zoo.{name}" for name in find_packages("zoo")),
    ],
    package_dir=FOLDERS,
    package_data={
        "rsl_rl": ["py.typed"],
        "rsl_rl.exporters": ["c_source/*"],
        "rsl_rl.robots": ["*/*.xml", "*/*.urdf"],
        "rsl_rl.viz": ["page.html"],
        "rsl_rl_zoo": ["*/*.onnx", "*/*.json", "*/*.yaml", "*/*.md", "*/*.webp"],
        "rsl_rl_zoo.robots": ["*/*.xml", "*/LICENSE"],
    },
    entry_points={
        "console_scripts": ["rsl-rl = rsl_rl.cli.main:main"],
        "rsl_rl.tasks": [f"{name} = rsl_rl_configs.{path}" for name, path in experiments().items()],
    },
    python_requires=">=3.8",
    install_requires=[
        "torch>=2.1",
        "numpy",
        "tensorboard",
        "rich",
        "tyro",
        "PyYAML",
        "typing_extensions>=4.10",
    ],
    extras_require=EXTRAS,
)
