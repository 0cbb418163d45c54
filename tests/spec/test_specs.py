"""Every spec file holds: as written, and again with a restart between all steps.

Starting a pipeline costs more than the steps of most files, so files share one where they can; those at whose end the
inputs end share one with their like. All are restarted in `make test-all`; in `make test` one pack in fourteen is, and
one in sixteen of those that cannot share."""

from pathlib import Path

import pytest

from tidegate.testing.spec.files import find, run_file, run_together
from tidegate.testing.spec.parser import read
from tidegate.testing.spec.renaming import can_share, ends_inputs

HERE = Path(__file__).parent
AT_MOST = 12
SPECS = {path: read(path) for path in find([HERE])}


def name(path):
    return str(path.relative_to(HERE).with_suffix(""))


def packs():
    """The files that can share, in order, none too large."""
    sharing = [path for path, spec in SPECS.items() if can_share(spec)]
    ending = [path for path in sharing if ends_inputs(SPECS[path])]
    for files in ([path for path in sharing if path not in ending], ending):
        for start in range(0, len(files), AT_MOST):
            pack = files[start : start + AT_MOST]
            yield pytest.param(pack, id=f"{len(pack)} from {name(pack[0])} to {name(pack[-1])}")


def fail_with(failures):
    if failures:
        pytest.fail("\n\n".join(failure.render() for failure in failures), pytrace=False)


PACKS = list(packs())
RESTARTED = PACKS[3::14]
UNDISTURBED = [pack for pack in PACKS if pack not in RESTARTED]


@pytest.mark.parametrize("paths", RESTARTED)
def test_specs_together_with_restarts(paths, spark):
    fail_with(run_together(paths, spark, restarts=True))


@pytest.mark.parametrize("paths", UNDISTURBED)
def test_specs_together(paths, spark):
    fail_with(run_together(paths, spark, restarts=False))


@pytest.mark.slow
@pytest.mark.parametrize("paths", UNDISTURBED)
def test_all_specs_together_with_restarts(paths, spark):
    fail_with(run_together(paths, spark, restarts=True))


ALONE = [path for path, spec in SPECS.items() if not can_share(spec)]
QUICK = ALONE[::16]


@pytest.mark.parametrize("path", [path for path in ALONE if path not in QUICK], ids=name)
def test_spec_alone(path, spark):
    fail_with(run_file(path, spark, restarts=False).failures)


@pytest.mark.parametrize("path", QUICK, ids=name)
def test_spec_alone_with_restarts(path, spark):
    fail_with(run_file(path, spark, restarts=True).failures)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in ALONE if path not in QUICK], ids=name)
def test_every_spec_with_restarts(path, spark):
    fail_with(run_file(path, spark, restarts=True).failures)
