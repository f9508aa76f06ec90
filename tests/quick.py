"""Commands that measure less than users' do."""

import contextlib

import pytest


@contextlib.contextmanager
def quick_commands():
    """Make short what commands of this process measure at a fixed length, and render no pictures for reports. Tests of
    these measurements set lengths of their own, and programs in processes of their own have those of users."""

    def blank(path, *_, **__):
        path.write_bytes(b"\x89PNG" + bytes(6000))

    few = {"_REPEATS": 1, "_STOPPED": 4, "_WALKING": 0.5, "_SETTLING": 2.5, "_MEASURED": 2.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsl_rl.evaluation.report.write_pictures", blank)
        patch.setattr("rsl_rl.cli.export.PARITY_SECONDS", 1.0)
        patch.setattr("rsl_rl.cli.export.PARITY_STEPS", 30)
        for name, value in few.items():
            patch.setattr(f"rsl_rl.evaluation.endurance.{name}", value)
        yield
