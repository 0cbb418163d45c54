"""The public names of `tidegate`."""

from __future__ import annotations

import tidegate
from tidegate.errors.catalogue import CATALOGUE


def test_every_public_name_can_be_loaded() -> None:
    assert sorted(tidegate.__all__) == tidegate.__all__
    assert all(getattr(tidegate, name) is not None for name in tidegate.__all__)


def test_the_class_of_every_error_is_public() -> None:
    for entry in CATALOGUE.values():
        assert getattr(tidegate, entry.raises.__name__) is entry.raises
        assert issubclass(entry.raises, tidegate.Error)
