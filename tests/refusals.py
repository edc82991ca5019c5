"""One-line refusals, as every ValueError for a user must be."""

import pytest


def assert_refused(make, words):
    with pytest.raises(ValueError) as error:
        make()
    text = str(error.value)
    assert "\n" not in text and all(word in text for word in words), text
