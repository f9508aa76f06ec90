"""Package metadata. The distribution is called rsl-rl-lib because a distribution of that name already owns the import
name rsl_rl."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "rsl_rl" / "__init__.py").read_text()).group(1)

EXTRAS = {
    "sim": ["mujoco>=4.0", "matplotlib"],
    "warp": ["mujoco>=4.0", "mujoco-warp>=4.0"],
    "export": ["onnx", "onnxscript", "onnxruntime"],
    "video": ["mujoco>=4.0", "imageio", "imageio-ffmpeg"],
    "viewer": ["mujoco>=4.0", "viser>=1.1.1", "trimesh"],
    "wandb": ["wandb"],
    "dev": [
        "pytest", "pytest-cov", "pytest-xdist", "filelock", "hypothesis",
        "ruff", "pyright[nodejs]", "vermin", "isaacgym-stubs==1.1rc4",
    ],
}  # fmt: skip

setup(
    name="rsl-rl-lib",
    version=VERSION,
    description="PPO for legged robots: thousands of simulated worlds, one policy, minutes of training",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    packages=find_packages(include=["rsl_rl", "rsl_rl.*"]),
    package_data={"rsl_rl.robots": ["*/*.xml", "*/*.urdf"]},
    python_requires=">=3.8",
    install_requires=["torch>=2.1", "numpy", "tensorboard", "GitPython", "rich", "tyro", "PyYAML"],
    extras_require=EXTRAS,
)
