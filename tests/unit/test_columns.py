"""Names of producers."""

import pytest

from tidegate.core.columns import Producer, content_input


@pytest.mark.parametrize("relation", ["t", "a@b", "a@1", "mail@example.com"])
def test_the_name_of_a_relation_never_makes_it_a_content_input(relation):
    assert not Producer.of_input(relation).is_content
    assert Producer.of_input(content_input(relation, generation=2, entry=17)).is_content
