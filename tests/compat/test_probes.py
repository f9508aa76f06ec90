"""The sixteen probes of versions 3 and 5 pass; probes.py runs with upstream's package too."""

import pytest

from tests.compat.probes import PROBES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("major", "what"), [(major, what) for major in PROBES for what in PROBES[major]])
def test_client_of_its_version_runs(major, what, tmp_path):
    PROBES[major][what](tmp_path)
