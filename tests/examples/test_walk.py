import draw
import numpy as np
import pytest
import walk
from matplotlib.figure import Figure


def test_pieces_make_words():
    pieces = ["▁", "is", "▁travell", "ing", ",", "▁now", ".", "</s>"]
    words, member = walk.by_word(pieces)
    assert words == ["is", "travelling", ",", "now", ".", "</s>"]
    assert [np.flatnonzero(row).tolist() for row in member] == [[0, 1], [2, 3], [4], [5], [6], [7]]


@pytest.mark.parametrize("digits", [1, None])
def test_a_heat_map_has_its_labels_and_its_numbers(digits):
    values = np.array([[0.25, -np.inf, 1], [0, 0.5, 0.75]])
    axes = Figure().subplots()
    image = draw.heat(axes, values, ["$a", "b"], ["c", "d", "e"], "title", digits)
    np.testing.assert_array_equal(image.get_array(), values)
    assert image.get_clim() == (0, 1) and axes.get_title() == "title"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "d", "e"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$a", "b"]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert len(shown) == (0 if digits is None else 6)
    if shown:
        assert (shown[(1, 0)], shown[(2, 1)], shown[(0, 0)]) == ("-∞", "0.8", "0.2")
