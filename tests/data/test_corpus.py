import gzip
import os
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.data import load_corpus, phrasebook
from keras_mt.data.corpus import has_split
from keras_mt.errors import CorpusError

ENGLISH = ["A dog.", "Two\u2028cats\x0b!", "  spaces  inside  ", "Ünïcode 😀"]
GERMAN = ["Ein Hund.", "Zwei\x85Katzen!", "Leer\u00a0zeichen", "Straße"]


def read(*arguments):
    pairs = load_corpus(*arguments).as_numpy_iterator()
    return [(source.decode(), target.decode()) for source, target in pairs]


def write(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode())


LAYOUTS = ["{language}.{split}.txt", "{split}.{language}"]


@pytest.fixture
def folder(tmp_path, request):
    layout = getattr(request, "param", LAYOUTS[0])
    for split, size in (("train", 4), ("test", 2)):
        for language, lines in (("en", ENGLISH), ("de", GERMAN)):
            write(tmp_path / layout.format(language=language, split=split), lines[:size])
    (tmp_path / "README.md").write_text("other files do not matter")
    (tmp_path / "en.notes.txt").write_text("one language alone is no split\n")
    return tmp_path


@pytest.mark.parametrize("folder", LAYOUTS, indirect=True)
def test_a_folder_is_split_on_newline_bytes_alone(folder):
    assert read(folder, "en", "de", "train") == list(zip(ENGLISH, GERMAN, strict=True))
    assert read(str(folder), "de", "en", "test") == list(zip(GERMAN, ENGLISH, strict=True))[:2]
    assert [has_split(folder, "en", "de", s) for s in ("train", "validation", "notes")] == [
        True, False, False,
    ]  # fmt: skip


def test_carriage_returns_and_byte_order_marks(tmp_path):
    (tmp_path / "en.train.txt").write_bytes(b"\xef\xbb\xbfone\rtwo\r\nthree\x00\n")
    (tmp_path / "de.train.txt").write_bytes(b"eins\n\rzwei\r\r\n")
    assert read(tmp_path, "en", "de", "train") == [("one\rtwo", "eins"), ("three\0", "\rzwei\r")]
    table = tmp_path / "pairs.tsv"
    table.write_bytes(b"\xef\xbb\xbfde\ten\r\neins\tone\rtwo\r\n")
    assert read(table, "en", "de", "train") == [("one\rtwo", "eins")]


lines_of_text = st.lists(
    st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"])).filter(
        lambda line: line.strip()
    ),
    min_size=1,
    max_size=30,
)


@given(lines_of_text)
def test_any_unicode_comes_back_as_written(lines):
    with tempfile.TemporaryDirectory() as folder:
        for language in ("en", "de"):
            write(Path(folder) / f"train.{language}", lines)
        assert read(folder, "en", "de", "train") == [(line, line) for line in lines]


def test_more_pairs_than_are_handed_over_at_a_time(tmp_path):
    lines = [f"line {i}" for i in range(2500)]
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}", lines)
    pairs = load_corpus(tmp_path, "en", "de", "train")
    assert pairs.element_spec == (tf.TensorSpec((), tf.string),) * 2
    for _ in range(2):
        assert [a.decode() for a, _ in pairs.as_numpy_iterator()] == lines


def test_a_split_of_one_side_alone_is_named(folder):
    with pytest.raises(CorpusError, match=r"no split 'notes' of 'de': expected de\.notes\.txt"):
        (folder / "notes.en").write_text("one\n")
        load_corpus(folder, "en", "de", "notes")
    (folder / "old.en").mkdir()
    (folder / "old.de").mkdir()
    assert not has_split(folder, "en", "de", "old")


def test_the_last_newline_may_be_missing(folder):
    for path in folder.glob("*train*"):
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert len(read(folder, "en", "de", "train")) == 4


def train_file(folder, language):
    return next(p for p in folder.glob("*train*") if language in p.name.split("."))


def test_sides_that_do_not_align_are_refused(folder):
    path = train_file(folder, "de")
    write(path, [*GERMAN, "noch einer"])
    with pytest.raises(CorpusError, match=r"4 lines.*5.*line 5 has no other side") as error:
        load_corpus(folder, "en", "de", "train")
    assert path.name in str(error.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [(b"caf\xe9", r":3 is not UTF-8 \(byte 4"), (b" \t ", ":3 is blank"), (b"", ":3 is blank")],
)
def test_bad_lines_are_refused_with_file_and_line(folder, line, message):
    path = train_file(folder, "de")
    lines = path.read_bytes().split(b"\n")
    lines[2] = line
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(CorpusError, match=message) as error:
        load_corpus(folder, "en", "de", "train")
    assert path.name in str(error.value)


def compress(path, suffix):
    """Replaces a file by a compressed one of two members, as several programs write them."""
    pack = gzip.compress
    if suffix == ".zst":
        pack = zstd.compress
    data = path.read_bytes()
    path.unlink()
    path = path.with_name(path.name + suffix)
    path.write_bytes(pack(data[:5]) + pack(data[5:]))
    return path


@pytest.mark.parametrize(
    ("folder", "suffix"), [(LAYOUTS[0], ".gz"), (LAYOUTS[1], ".zst")], indirect=["folder"]
)
def test_compressed_files_are_read_as_what_they_hold(folder, suffix, tmp_path):
    expected = read(folder, "en", "de", "train")
    path = compress(train_file(folder, "en"), suffix)
    assert read(folder, "en", "de", "train") == expected
    table = tmp_path / "pairs.tsv"
    write(table, ["en\tde", "dog\tHund"])
    table = compress(table, suffix)
    assert read(table, "en", "de", "train") == [("dog", "Hund")]
    assert has_split(table, "en", "de", "train")
    for damaged in (path.read_bytes()[:-9], b"no archive", path.read_bytes()[:20] + b"\0" * 30):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError, match=rf"{path.name} is damaged: "):
            load_corpus(folder, "en", "de", "train")
    path.write_bytes(b"")
    with pytest.raises(CorpusError, match=r"has 0 lines and|is damaged"):
        load_corpus(folder, "en", "de", "train")


def test_an_empty_compressed_file_is_refused(folder):
    for language in ("en", "de"):
        path = train_file(folder, language)
        path.write_bytes(b"")
        compress(path, ".gz")
    with pytest.raises(CorpusError, match="is empty"):
        load_corpus(folder, "en", "de", "train")


def test_empty_files_and_missing_parts_are_refused(folder, tmp_path_factory):
    with pytest.raises(CorpusError, match=r"no split 'train' of 'fr': expected fr\.train\.txt"):
        load_corpus(folder, "en", "fr", "train")
    with pytest.raises(CorpusError, match=r"no split 'dev' of 'en': .* it has .*de\.test\.txt, "):
        load_corpus(folder, "en", "de", "dev")
    with pytest.raises(CorpusError, match="must differ"):
        load_corpus(folder, "en", "en", "train")
    with pytest.raises(CorpusError, match="There is no corpus"):
        load_corpus(folder / "nowhere", "en", "de", "train")
    with pytest.raises(CorpusError, match="it has nothing"):
        load_corpus(tmp_path_factory.mktemp("empty"), "en", "de", "train")
    train_file(folder, "en").write_bytes(b"")
    with pytest.raises(CorpusError, match="has 0 lines and"):
        load_corpus(folder, "en", "de", "train")


def test_a_tsv_without_a_header_is_source_and_target(tmp_path):
    path = tmp_path / "pairs.tsv"
    write(path, ["A dog.\tEin Hund.\tCC-BY", "A cat.\tEine Katze.\tCC-BY"])
    expected = [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]
    assert read(path, "en", "de", "train") == read(path, "en", "de", "test") == expected
    assert has_split(path, "en", "de", "train") and not has_split(path, "en", "de", "validation")


def test_a_tsv_header_names_the_columns_and_splits(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [
        "id\tde\tsplit\ten",
        "1\tHund\ttrain\tdog",
        "2\tKatze\ttest\tcat",
        "3\tMaus\ttrain\tmouse",
    ]
    write(path, rows, end="\r\n")
    assert read(path, "en", "de", "train") == [("dog", "Hund"), ("mouse", "Maus")]
    assert read(path, "de", "en", "test") == [("Katze", "cat")]
    assert has_split(path, "en", "de", "test") and not has_split(path, "en", "de", "validation")
    with pytest.raises(CorpusError, match=r"no split 'validation'; it has test, train"):
        load_corpus(path, "en", "de", "validation")
    with pytest.raises(CorpusError, match=r"pairs\.tsv has no language 'fr'; it has id, de, en"):
        load_corpus(path, "en", "fr", "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nc\n", r"pairs\.tsv:2 has 1 columns; at least 2"),
        (b"a\tb\nc\t\n", r"pairs\.tsv:2 is blank"),
        (b"a\tb\nc\t\xff\n", r"pairs\.tsv:2 is not UTF-8"),
        (b"a\tb\n\nc\td\n", r"pairs\.tsv:2 is blank"),
        (b"en\tde\tsplit\na\tb\t\xff\n", r"pairs\.tsv has no split 'train'"),
        (b"en\tx\tde\tsplit\na\t\xff\tb\ttrain\n", r"pairs\.tsv:2 is not UTF-8"),
        (b"en\tde\tsplit\na\tb\n", r"pairs\.tsv:2 has 2 columns; at least 3"),
        (b"", r"pairs\.tsv is empty"),
        (b"en\tde\n", r"pairs\.tsv is empty"),
    ],
)
def test_a_malformed_tsv_is_refused_with_its_line(tmp_path, content, message):
    (tmp_path / "pairs.tsv").write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path / "pairs.tsv", "en", "de", "train")


def test_a_bad_row_matters_to_its_own_split_alone(tmp_path):
    path = tmp_path / "pairs.tsv"
    write(path, ["en\tde\tsplit", "dog\tHund\ttrain", "cat\t\ttest", "mouse\tMaus\tvalidation"])
    assert has_split(path, "en", "de", "test") and not has_split(path, "en", "de", "split")
    assert read(path, "en", "de", "train") == [("dog", "Hund")]
    assert read(path, "en", "de", "validation") == [("mouse", "Maus")]
    with pytest.raises(CorpusError, match=r"pairs\.tsv:3 is blank"):
        load_corpus(path, "en", "de", "test")
    path.write_bytes(path.read_bytes() + b"cow\n")  # Without a split it is of train.
    assert read(path, "en", "de", "validation") == [("mouse", "Maus")]
    with pytest.raises(CorpusError, match=r"pairs\.tsv:5 has 1 columns"):
        load_corpus(path, "en", "de", "train")


@pytest.mark.parametrize("name", ["dev", "valid", "val"])
def test_other_names_of_the_validation_split_count(tmp_path, name):
    for split, line in (("train", "one"), (name, "two")):
        for language in ("en", "de"):
            write(tmp_path / f"{split}.{language}", [line])
    write(tmp_path / "pairs.tsv", ["en\tde\tsplit", "one\teins\t", f"two\tzwei\t{name}"])
    for data, expected in ((tmp_path, ("two", "two")), (tmp_path / "pairs.tsv", ("two", "zwei"))):
        assert has_split(data, "en", "de", "validation")
        assert read(data, "en", "de", "validation") == read(data, "en", "de", name) == [expected]
    for language in ("en", "de"):
        write(tmp_path / f"validation.{language}", ["three"])
    assert read(tmp_path, "en", "de", "validation") == [("three", "three")]


@pytest.mark.parametrize("header", ["en\tde\tsplit", "split\ten\tde", "id\tsplit\ten\tde"])
def test_a_tsv_header_of_other_languages_is_refused(tmp_path, header):
    path = tmp_path / "pairs.tsv"
    write(path, [header, "dog\tHund\ttrain\tx", "cat\tKatze\ttest\tx"])
    columns = ", ".join(name for name in header.split("\t") if name != "split")
    for ask in (load_corpus, has_split):
        with pytest.raises(CorpusError, match=rf"has no language 'eng'; it has {columns}"):
            ask(path, "eng", "deu", "test")
    # A first row of text, not a header.
    write(path, ["split\tgespalten", "dog\tHund"])
    assert len(read(path, "eng", "deu", "test")) == 2


def test_a_tsv_row_whose_split_is_blank_is_of_train(tmp_path):
    path = tmp_path / "pairs.tsv"
    write(path, ["en\tde\tsplit", "dog\tHund\t", "cat\tKatze\ttest", "mouse\tMaus\t "])
    assert has_split(path, "en", "de", "train") and has_split(path, "en", "de", "test")
    assert read(path, "en", "de", "train") == [("dog", "Hund"), ("mouse", "Maus")]


def test_the_phrasebook_goes_both_ways():
    pairs = list(phrasebook.pairs("test"))
    assert read("phrasebook", "pt", "en", "test") == pairs
    assert read("phrasebook", "en", "pt", "test") == [(en, pt) for pt, en in pairs]
    with pytest.raises(CorpusError, match="no language 'de'; it has pt, en"):
        load_corpus("phrasebook", "de", "en", "test")
    with pytest.raises(CorpusError, match="no split 'dev'"):
        load_corpus("phrasebook", "pt", "en", "dev")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "source", "target"),
    [("ted_hrlr_translate/pt_to_en", "pt", "en"), ("wmt14_translate/de-en", "en", "de")],
)
def test_tfds_translation_sets(name, source, target):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=5):
        direct = [
            (row[source].decode(), row[target].decode())
            for row in tfds.as_numpy(tfds.load(name, split="train"))
        ]
        assert read(f"tfds:{name}", source, target, "train") == direct
        assert len(direct) == 5 and all(map(all, direct))
        assert has_split(f"tfds:{name}", source, target, "validation")
        assert not has_split(f"tfds:{name}", source, target, "dev")
        with pytest.raises(CorpusError, match="no language 'fr'"):
            load_corpus(f"tfds:{name}", "fr", target, "train")


@pytest.mark.long
def test_a_tfds_set_that_cannot_be_downloaded_says_so(monkeypatch):
    import tensorflow_datasets as tfds

    def fail(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(CorpusError, match="could not load 'ted_hrlr_translate/pt_to_en': no net"):
        load_corpus("tfds:ted_hrlr_translate/pt_to_en", "pt", "en", "train")


@pytest.mark.long
def test_an_unknown_tfds_set_is_refused():
    with pytest.raises(CorpusError, match="TFDS has no dataset 'no_such_set'"):
        load_corpus("tfds:no_such_set", "en", "de", "train")


@pytest.mark.skipif("KERAS_MT_DATA" not in os.environ, reason="KERAS_MT_DATA is not set")
@pytest.mark.long
@pytest.mark.parametrize(
    ("split", "size"),
    [("test", 1_000), pytest.param("train", 29_000, marks=pytest.mark.exhaustive)],
)
def test_a_real_corpus_is_read_whole(split, size):
    folder = Path(os.environ["KERAS_MT_DATA"]) / "multi30k_en_de"
    pairs = read(folder, "en", "de", split)
    for side, language in enumerate(("en", "de")):
        text = (folder / f"{language}.{split}.txt").read_bytes().decode()
        assert [pair[side] for pair in pairs] == text.removesuffix("\n").split("\n")
    assert len(pairs) == size
