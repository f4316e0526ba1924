"""The links of words."""

import numpy as np

from keras_mt.alignment.links import attention_links, pharaoh_line


def test_links_of_words_by_attention():
    words = np.array([0, 0, -1, 1, -1]), np.array([0, 1, 1, -1])
    attention = np.array(
        [
            [0.3, 0.3, 0.0, 0.4, 0.0],  # Of both pieces of a word, more than of the other word.
            [0.0, 0.0, 0.0, 0.2, 0.8],
            [0.2, 0.0, 0.0, 0.4, 0.4],  # The mean of this and the one before: 0.3.
            [0.0, 0.0, 0.0, 1.0, 0.0],
        ]
    )
    assert attention_links(attention, *words).tolist() == [[0, 0], [1, 1]]
    assert attention_links(attention, *words, least=0.35).tolist() == [[0, 0]]
    assert attention_links(attention, np.full(5, -1), words[1]).shape == (0, 2)


def test_pharaohs_format():
    assert pharaoh_line(np.array([[0, 0], [12, 3]])) == "0-0 12-3"
