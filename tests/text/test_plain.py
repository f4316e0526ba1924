"""The text's way without TensorFlow, held to the graph's."""

import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest
import re2
import tensorflow as tf
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from keras_mt import Tokenizer
from keras_mt.data import phrasebook
from keras_mt.run_folder import RunFolder
from keras_mt.text import PretrainedTokenizer, plain, sentences
from keras_mt.text.patterns import NO_WORD
from keras_mt.text.plain import PlainTokenizer

# Single characters that patterns or SentencePiece treat in a way of their own, and some others.
WILD = "aB1.!?…,\"'»(« \u00a0\u3000\u2028\u200b\ufeff\n\r\t\0\1\2\3\4\5\x1d\x1f\x85。！？é▁ß<>中ﬁ"
TEXTS = st.lists(st.text() | st.text(WILD), min_size=8, max_size=24)
TOKENIZERS = ("trained", "multilingual", "tagged", "several")


def columns(*ragged):
    """The rows of ragged or dense strings, as tuples."""
    lists = (x.to_list() if hasattr(x, "to_list") else x.numpy().tolist() for x in ragged)
    return [*zip(*lists, strict=True)]


def as_bytes(nest):
    return nest.encode() if isinstance(nest, str) else [as_bytes(x) for x in nest]


def assert_lines_and_sentences(texts, with_terms=False):
    """Holds the lines and sentences of texts to the graph's, and returns the sentences."""
    expected = columns(*sentences.split_lines(tf.constant(texts), with_terms))
    found = [plain.split_lines(text, with_terms) for text in texts]
    for text, own, graphs in zip(texts, found, expected, strict=True):
        assert as_bytes(own) == [*graphs], text
    lines = [line for lines, _, _ in found for line in lines]
    where = [i % 4 > 0 for i in range(len(lines))]
    expected = columns(*sentences.split_sentences(tf.constant(lines), where))
    found = [*map(plain.split_sentences, lines, where)]
    for line, own, graphs in zip(lines, found, expected, strict=True):
        assert as_bytes(own) == [*graphs], line
    passes = tf.strings.regex_full_match(lines, NO_WORD).numpy().tolist()
    assert [plain.passes_through(line) for line in lines] == passes
    return [sentence for row, _ in found for sentence in row]


@given(TEXTS, st.booleans())
def test_lines_and_sentences_are_those_of_the_graph(texts, with_terms):
    assert_lines_and_sentences(texts, with_terms)


@given(st.lists(st.lists(st.integers(4, 7), max_size=40), min_size=1), st.integers(1, 12))
def test_cuts_are_those_of_the_graph(rows, limit):
    begins = np.arange(8) == 4
    ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    expected = sentences.cut(ids, tf.constant(begins), limit)[0].to_list()
    assert [part for row in rows for part in plain.cut(row, begins, limit)] == expected


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """By name, a tokenizer and the plain one that is read from its folder."""
    texts = [pair[0] for pair in itertools.islice(phrasebook.pairs("train"), 1000)]
    trained = Tokenizer.load(ROOT / "examples" / "multi30k" / "cased" / "tokenizer.model")
    other = Tokenizer.train(texts, 400, languages=["en", "pt"])
    tables = [x.id_to_string(tf.range(6, x.vocab_size)).numpy().tolist() for x in (trained, other)]
    # Some pieces are no text, some ids have none, and some pieces are in no table.
    special = ["<unk>", "<pad>", "</s>", "<s>"]
    tables = [[*special, "", *(x.decode() for x in table[::-1][20:]), ">>en<<"] for table in tables]
    last = len(tables[0]) - 1
    made = {
        "trained": trained,
        "multilingual": other,
        "tagged": PretrainedTokenizer(
            [trained.model, other.model], tables, special=special, padding_id=1, bos_id=1,
            eos_id=2, language_tags={">>en<<": last}, forced=[3], forbidden_ids=[0],
        ),
        "several": PretrainedTokenizer(
            [trained.model], tables[:1], special=special, padding_id=1, bos_id=2, eos_id=2,
            languages={"en": 30, "pt": last}, language_first=False, source_prefix=[3],
            source_eos_id=1,
        ),
    }  # fmt: skip
    folders = {name: tmp_path_factory.mktemp(name) for name in made}
    for name, tokenizer in made.items():
        RunFolder(folders[name]).save_tokenizer(tokenizer)
    return {name: (made[name], PlainTokenizer.load(folders[name])) for name in made}


@pytest.mark.parametrize("name", TOKENIZERS)
@given(TEXTS, st.lists(st.lists(st.integers(0, 349), max_size=12), min_size=8))
def test_pieces_and_text_are_those_of_the_graph(pairs, name, texts, rows):
    graph, own = pairs[name]
    texts += [f">>en<<{text}" for text in texts]
    strings = tf.constant(texts)
    rows += graph.target_pieces(strings).to_list()
    assert [own.pieces(text) for text in texts] == graph.pieces(strings).to_list()
    assert [own.target_pieces(text) for text in texts] == graph.target_pieces(strings).to_list()
    ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    assert [own.text(row) for row in rows] == graph.text(ids).numpy().tolist()
    tags = graph.language_tags(strings)
    assert bool(own.tag_ids) == (tags is not None)
    expected = [[] for _ in texts] if tags is None else tags.to_list()
    assert [own.tag(text) for text in texts] == expected


@pytest.mark.parametrize("name", TOKENIZERS)
def test_special_ids_and_pieces_are_those_of_the_graph(pairs, name):
    graph, own = pairs[name]
    for attribute in (
        "padding_id",
        "bos_id",
        "eos_id",
        "term_markers",
        "languages",
        "forbidden_ids",
    ):
        assert getattr(own, attribute) == getattr(graph, attribute)
    assert own.special_counts() == graph.special_counts()
    assert own.begins_word.tolist() == graph.begins_word.tolist()
    codes = [*itertools.product([*graph.languages, "none"], repeat=2)] if graph.languages else []
    for code in [(), *codes]:
        strings, pieces = [tf.constant([x]) for x in code], tf.constant([[7, 8]])
        pieces = tf.RaggedTensor.from_tensor(pieces)
        assert own.source_ids([7, 8], *code) == graph.source_ids(pieces, *strings).to_list()[0]
        assert (
            own.target_ids([7, 8], *code[1:]) == graph.target_ids(pieces, *strings[1:]).to_list()[0]
        )
        forced = graph.forced_ids(*strings[1:])
        assert own.forced_ids(*code[1:]) == ([] if forced is None else forced.numpy()[0].tolist())
    for function, size in (
        ("id_to_string", graph.target_vocab_size),
        ("source_id_to_string", graph.source_vocab_size),
    ):
        expected = getattr(graph, function)(tf.range(size)).numpy().tolist()
        assert [*map(getattr(own, function), range(size))] == expected


# What the exhaustive tests allow: of pieces, as many texts whose segmentations score alike; and of
# characters, as many that are letters in one of the two versions of Unicode.
MOST_PIECES, MOST_LETTERS = 10, 1000


@pytest.fixture(scope="module")
def newer():
    """The characters that patterns tell apart and that Unicode's versions know differently."""
    known = "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    found = set()
    for kind in (r"[\p{Lu}\p{Lt}\p{Lo}]", r"\pL", r"\pN", r"[\s\p{Z}]", r"\p{Cc}"):
        graphs = tf.strings.regex_replace(known, kind, "").numpy().decode()
        found |= {*graphs} ^ {*re2.sub(kind, b"", known.encode()).decode()}
    return found


def wild_texts():
    words = " ".join(itertools.chain(*itertools.islice(phrasebook.pairs("train"), 500))).split()
    blocks = (0, 0x250), (0x250, 0x3000), (0x3000, 0xD800), (0xE000, 0x110000)
    kinds = [
        *(lambda block=block: chr(random.randrange(*block)) for block in blocks),
        lambda: random.choice(WILD),
        lambda: random.choice(words),
        lambda: random.choice(words) + random.choice([" ", "  ", ". ", "? ", "\n"]),
    ]
    for _ in range(100_000):
        some = random.sample(kinds, k=random.randint(1, len(kinds)))
        yield "".join(random.choice(some)() for _ in range(random.randrange(25)))
    # So long that scores, of which 0.1.96 keeps the sum as float32, are rounded to the same.
    yield from (" ".join(random.choices(words, k=40_000)) for _ in range(3))


def real_texts():
    """The different lines of all corpora."""
    texts = set()
    for path in Path(os.environ["KERAS_MT_DATA"]).rglob("*.txt"):
        texts.update(path.read_text(encoding="utf-8").split("\n"))
    return sorted(texts)


NO_DATA = pytest.mark.skipif("KERAS_MT_DATA" not in os.environ, reason="KERAS_MT_DATA is not set")


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.parametrize("texts", [wild_texts, pytest.param(real_texts, marks=NO_DATA)])
def test_all_texts_are_treated_as_in_the_graph(pairs, newer, texts):
    assert len(newer) <= MOST_LETTERS, f"{len(newer)} characters differ: {sorted(newer)}"
    texts, unlike, count = iter(texts()), set(), 0
    while batch := [*itertools.islice(texts, 5000)]:
        found = assert_lines_and_sentences([text for text in batch if newer.isdisjoint(text)])
        count += len(found)
        for (name, (graph, own)), side in itertools.product(
            pairs.items(), ("pieces", "target_pieces")
        ):
            expected = getattr(graph, side)(tf.constant(found))
            rows, others = expected.to_list(), [*map(getattr(own, side), found)]
            if side == "target_pieces":
                assert [*map(own.text, rows)] == graph.text(expected).numpy().tolist()
            differ = [i for i, row in enumerate(rows) if row != others[i]]
            if name in ("trained", "multilingual"):
                for i in differ:
                    scores = (sum(map(own._processor.get_score, x)) for x in (rows[i], others[i]))
                    assert np.isclose(*scores, rtol=1e-5), found[i]
                    assert own.text(rows[i]) == own.text(others[i])
                    unlike.add(found[i])
            assert not {found[i] for i in differ} - unlike
    message = f"the pieces of {len(unlike)} of {count} texts differ, such as "
    assert len(unlike) <= MOST_PIECES, message + repr([text[:99] for text in unlike][:20])
