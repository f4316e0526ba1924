"""Segments without TensorFlow, held to those of the graph."""

import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mt import Tokenizer
from keras_mt.inference import segments as graph
from keras_mt.run_folder import RunFolder
from keras_mt.text import PretrainedTokenizer
from keras_mt.text.plain import PlainTokenizer
from keras_mt.translation import segments as plain

PARTS = [
    *("O livro está em cima da mesa.", "O gato dorme. Olá!", "Dr. A. B. X.", "palavra " * 9),
    *(">>eng<<", ">>eng<< ", ">>deu<<", "gato\x01cat\x02 dorme", "\x01a\x02", "mesa\x01desk\x02."),
    *("", " ", "\n", "\n\n  ", "\t", "\r\n", "\u2028", "***", "…", "▁x", "<s></s>", "\x03 "),
    *("\x03", "\x05", "。你好！再见", "-- 3.", "é" * 9, "a" * 40),
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=7).map("".join)


def marked(tokenizer):
    """A tokenizer whose sources may begin with a mark."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    pieces = [processor.id_to_piece(i) for i in range(4, processor.get_piece_size())]
    special = ["<unk>", "</s>", "<pad>"]
    return PretrainedTokenizer(
        [tokenizer.model], [[*special, ">>eng<<", *pieces]], special=special,
        padding_id=2, bos_id=2, eos_id=1, language_tags={">>eng<<": 3},
    )  # fmt: skip


@pytest.fixture(scope="module", params=[False, True])
def tokenizers(request, run_dir, tmp_path_factory):
    """A tokenizer of the graph and its twin, from one folder."""
    tokenizer = Tokenizer.load(run_dir / "tokenizer.model")
    tokenizer = marked(tokenizer) if request.param else tokenizer
    folder = tmp_path_factory.mktemp("tokenizer")
    RunFolder(folder).save_tokenizer(tokenizer)
    return tokenizer, PlainTokenizer.load(folder)


@given(
    st.lists(TEXTS, min_size=5, max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([7, 60]),
)
def test_texts_are_cut_as_in_the_graph(tokenizers, texts, split, reads_terms, limit):
    theirs, ours = (
        room.Segmenter(tokenizer, limit, split, reads_terms)
        for room, tokenizer in zip((graph, plain), tokenizers, strict=True)
    )
    assert (ours.source_limit, ours.forced) == (theirs.source_limit, theirs.forced)
    expected = theirs.segments(tf.constant(texts))
    columns = [expected.text_index.numpy(), expected.before.numpy(), expected.pieces.to_list()]
    found = [ours.segments(text) for text in texts]
    assert [end.encode() for _, end in found] == expected.ends.numpy().tolist()
    assert list(zip(*columns, strict=True)) == [
        (i, each.before.encode(), each.pieces)
        for i, (segments, _) in enumerate(found)
        for each in segments
    ]


@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=5, max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([12, 60]),
)
def test_both_sides_are_cut_as_in_the_graph(tokenizers, rows, split, reads_terms, limit):
    theirs, ours = (
        room.Segmenter(tokenizer, limit, split, reads_terms)
        for room, tokenizer in zip((graph, plain), tokenizers, strict=True)
    )
    texts, targets = map(tf.constant, zip(*rows, strict=True))
    expected, too_long = theirs.pairs(texts, targets, tf.fill((len(rows),), True))
    found = [ours.pairs(*row) for row in rows]
    assert [not pairs for pairs in found] == too_long.numpy().tolist()
    columns = [expected.source.to_list(), expected.target.to_list()]
    assert list(zip(expected.text_index.numpy(), *columns, strict=True)) == [
        (i, pair.source[:-1], pair.target[:-1]) for i, pairs in enumerate(found) for pair in pairs
    ]
