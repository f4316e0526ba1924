"""Which keys `keras-mt serve` takes from a file, and where it needs none."""

import pytest

from keras_mt.cli.serve import _is_loopback, _keys
from keras_mt.errors import InputError


def test_users_of_keys_do_not_depend_on_their_lines(tmp_path):
    file = tmp_path / "keys"
    file.write_text("\ufeff# ours\nfirst Anna B. \n\nsecond\n", encoding="utf-8")
    keys = _keys(file)
    assert [*keys] == ["first", "second"] and keys["first"] == "Anna B."
    file.write_text("third\nsecond\nfirst Anna B.\n")
    assert {key: name for key, name in _keys(file).items() if key != "third"} == keys
    file.write_text("# none\n")
    with pytest.raises(InputError, match="has no key"):
        _keys(file)


def test_the_loopback_has_several_addresses():
    assert all(map(_is_loopback, ["127.0.0.1", "127.1.2.3", "::1", "localhost"]))
