"""Every spec file holds: as written, and again with a restart between all steps."""

from pathlib import Path

import pytest

from tidegate.testing.paths import find
from tidegate.testing.spec.files import run_file

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", find([HERE]), ids=lambda path: str(path.relative_to(HERE).with_suffix("")))
def test_spec(path, spark):
    result = run_file(path, spark, restarts=True)
    if not result.ok:
        pytest.fail("\n\n".join(failure.render() for failure in result.failures), pytrace=False)
