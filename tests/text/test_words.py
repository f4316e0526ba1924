import numpy as np
import pytest

from keras_mt.text.words import Words, coverage, word_alignment, words_of_pieces


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("A dog runs.", ["▁A", "▁do", "g", "▁run", "s", ".", "</s>"], [0, 1, 1, 2, 2, 3, None]),
        # Bytes, a compatibility character, an accent of its own, and line ends between segments.
        ("x 犬", ["▁x", "▁", "<0xE7>", "<0x8A>", "<0xAC>", "</s>"], [0, None, None, None, 1, None]),
        ("ﬁve cafe\u0301", ["▁five", "▁ca", "fé", "</s>"], [0, 1, 1, None]),
        ("a\nb", ["▁a", "</s>", "▁b", "</s>"], [0, None, 1, None]),
        # A language's token in front, an unknown piece, and a mark that others became.
        ("dog cat", ["eng_Latn", "▁dog", "▁<unk>", "</s>"], [None, 0, None, None]),
        ("he_▁x y", ["▁he", "__", "x", "▁y", "</s>"], [0, 0, 2, 3, None]),
    ],
)
def test_pieces_belong_to_words(text, pieces, words):
    shares = coverage(Words(text), pieces)
    found = [int(row.argmax()) if row.any() else None for row in shares]
    assert found == words
    assert set(shares.sum(axis=1).round(6)) <= {0, 1}


def test_a_piece_across_two_words_is_shared():
    shares = coverage(Words('he said "no"'), ["▁he", "▁said", '▁"no', '"', "</s>"])
    np.testing.assert_allclose(shares[2], [0, 0, 1 / 3, 2 / 3, 0])


def test_pieces_of_a_tokenizer_belong_to_the_words_of_its_text(load):
    tokenizer = load().tokenizer
    # A direction mark becomes a space, which is none; a full stop alone is a word.
    text = "O livro\u00a0verde? a\u200eb ... Ⅻ 犬, x"
    pieces = [x.decode() for x in tokenizer.id_to_string(tokenizer.pieces([text])[0]).numpy()]
    words = words_of_pieces(text.split(), [*pieces, "</s>"])
    joined = ["".join(p for p, w in zip(pieces, words, strict=False) if w == i) for i in range(8)]
    bytes_of_dog = "".join(f"<0x{byte:02X}>" for byte in "犬".encode())
    assert joined == ["▁O", "▁livro", "▁verde", "▁a▁b", "...", "<0x58>II", bytes_of_dog, "x"]
    assert words[-1] == -1
    assert words_of_pieces([], ["</s>"]).tolist() == [-1]
    lines = ["▁a", "</s>", "▁b", "</s>"]
    assert words_of_pieces(["a", "b"], lines).tolist() == [0, -1, 1, -1]


def test_shares_of_a_target_word_sum_to_one_and_follow_the_attention():
    source, target = Words("one two three."), Words("drei zwei eins.")
    pieces = ["▁one", "▁two", "▁th", "ree", ".", "</s>"]
    target_pieces = ["▁drei", "▁zw", "ei", "▁eins", ".", "</s>"]
    attention = np.full((6, 6), 0.05)
    for row, column in ((0, 2), (0, 3), (1, 1), (2, 1), (3, 0), (4, 4), (5, 5)):
        attention[row, column] = 0.7
    columns, rows = coverage(source, pieces), coverage(target, target_pieces)
    shares = word_alignment(source, target, rows.T @ attention @ columns)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    assert shares.argmax(axis=1).tolist() == [2, 1, 0, 3]
    attention[:, 1] += 2  # A word that all attend to.
    shares = word_alignment(source, target, rows.T @ attention @ columns)
    assert shares.argmax(axis=1).tolist() == [2, 1, 0, 3]
    assert word_alignment(Words(""), Words("a"), None).shape == (1, 0)


def test_a_unit_is_one_word_whatever_is_in_it():
    words = Words("a b-c, d e", [(0, 0), (2, 3), (5, 8)])
    assert [*words] == ["", "a", "b", "-", "c", ", d", "e"]
    assert words.units.tolist() == [0, 2, 5]
    assert [*words.real] == [False, True, True, False, True, True, True]
    words = Words("a b-c, d e", [(0, 0), (2, 3), (5, 8)], whole=False)
    assert [*words] == ["a", "b", "-", "c", ",", "d", "e"] and not len(words.units)
