"""Parallel text from TensorFlow Datasets, a folder, a file, or the embedded phrasebook."""

import codecs
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from keras_mt.compressed import open_read, strip_compression
from keras_mt.data import phrasebook
from keras_mt.data.tmx import tmx_pairs
from keras_mt.errors import CorpusError
from keras_mt.extras import require

_CHUNK = 1024  # Pairs handed to TensorFlow at a time.
# What also counts as the split `validation`, in this order, where there is none of that name.
_VALIDATION = ("valid", "val", "dev")


def load_corpus(data: str | os.PathLike, source: str, target: str, split: str) -> tf.data.Dataset:
    """Streams the sentence pairs of a corpus.

    Args:
        data: One of these:

            - `tfds:NAME`: a translation dataset of TensorFlow Datasets, such as
              `tfds:ted_hrlr_translate/pt_to_en`.
            - A folder of `LANG.SPLIT.txt` or `SPLIT.LANG` files, one sentence per line, aligned.
            - A `.tsv` file. If its first line names both languages, it is a header; a column
              `split`, if there is one, gives each row's split, blank for `train`. Otherwise its
              first two columns are source and target. Without a column `split`, all rows are in
              whatever split is asked for.
            - A `.tmx` file, a translation memory; `en` also stands for its `en-US`. All units are
              in whatever split is asked for.
            - `phrasebook`: the embedded corpus, `pt` and `en`.

            Text, `.tsv` and `.tmx` files may be compressed: `.gz`, and `.zst` with the extra `zst`.

        source: Language code of the source.
        target: Language code of the target.
        split: Name of the split, such as `train`, `validation` or `test`. In a corpus without a
            split `validation`, `valid`, `val` or `dev` is meant by it.

    Returns:
        A `tf.data.Dataset` of pairs of string scalars, in the corpus's order. Files are split at
        newline bytes only. The split is checked as a whole at once, but never held in memory.

    Raises:
        CorpusError: If there is no such corpus, language or split; if source and target are the
            same; or if a file is malformed: the sides differ in length, or a line is blank or not
            UTF-8.
        ValueError: If `tfds:` is asked for and tensorflow_datasets is not installed.

    Example:

    >>> pairs = load_corpus("phrasebook", "pt", "en", "test")
    >>> next(pairs.as_numpy_iterator())[0].decode()
    'Em Dezembro, Lucas irá viajar ao Rio.'
    """
    read, names = _reader(data, source, target)
    split = _own_name(split, names)
    if read is _tfds:
        return _tfds(str(data), source, target, split)
    read = functools.partial(read, str(data), source, target, split, checked=True)
    if not sum(1 for _ in read()):  # Which checks them.
        raise CorpusError(f"{data} is empty.")
    return dataset_of(read)


def raw_pairs(
    data: str | os.PathLike, source: str, target: str, split: str
) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a corpus as `load_corpus` has them, blank ones and bad UTF-8 included."""
    read, names = _reader(data, source, target)
    split = _own_name(split, names)
    if read is _tfds:
        return _tfds(str(data), source, target, split).as_numpy_iterator()
    return read(str(data), source, target, split, checked=False)


def is_whole(pair: tuple[bytes, bytes]) -> bool:
    """True if no side of a pair is blank or not UTF-8: `load_corpus` takes it."""
    try:
        for text in pair:
            _check_text(text, "", 0)
    except CorpusError:
        return False
    return True


def splits_of(data: str | os.PathLike, source: str, target: str) -> list[str]:
    """The splits of a corpus, sorted."""
    _, names = _reader(data, source, target)
    return sorted(names())


def has_split(data: str | os.PathLike, source: str, target: str, split: str) -> bool:
    """True if the corpus has a split, by the names that `load_corpus` takes.

    A `.tmx` file, and a `.tsv` file without a column `split`, count as `train` only.

    Example:

    >>> has_split("phrasebook", "pt", "en", "dev")
    False
    """
    names = splits_of(data, source, target)
    return _own_name(split, lambda: names) in names


def _own_name(split, names):
    """The corpus's own name of a split, which is another one for some `validation`."""
    if split != "validation" or split in (known := names()):
        return split
    return next((name for name in _VALIDATION if name in known), split)


def _reader(data, source, target):
    """Two functions for a corpus: one yields a split's pairs, the other lists the splits.

    That for TensorFlow Datasets, which checks no lines, returns a dataset of the pairs.
    """
    if source == target:
        raise CorpusError(f"source and target must differ. Received: {source!r} for both")
    data, path = str(data), Path(data)
    if data.startswith("tfds:"):
        require("tensorflow_datasets", "tfds", f"The corpus {data!r}")
        return _tfds, functools.partial(_tfds_splits, data)
    if data == "phrasebook":
        return _phrasebook, lambda: phrasebook.SPLITS
    if path.is_dir():
        files = functools.partial(_folder_files, data)
        return _folder, lambda: files(source).keys() & files(target).keys()
    if strip_compression(data).endswith(".tsv") and path.is_file():
        return _tsv, lambda: {split or "train" for *_, split in _rows(data, source, target)}
    if strip_compression(data).endswith(".tmx") and path.is_file():
        return _tmx, lambda: ["train"]
    raise CorpusError(
        f"There is no corpus {data!r}: give tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG "
        "files, a .tsv or .tmx file, or phrasebook."
    )


def _phrasebook(data, source, target, split, checked):
    _check_languages(data, phrasebook.LANGUAGES, source, target)
    _check_split(data, phrasebook.SPLITS, split)
    order = [phrasebook.LANGUAGES.index(language) for language in (source, target)]
    for pair in phrasebook.pairs(split):
        yield tuple(pair[i].encode() for i in order)


def _tfds(data, source, target, split):
    import tensorflow_datasets as tfds

    name = data.removeprefix("tfds:")
    languages = [feature for feature in _tfds_info(data).features if feature != "id"]
    _check_languages(data, languages, source, target)
    try:
        pairs = tfds.load(
            name,
            split=split,
            shuffle_files=False,
            read_config=tfds.ReadConfig(try_autocache=False),  # Never held whole.
        )
    except Exception as error:
        _check_split(data, _tfds_splits(data), split)
        raise CorpusError(f"TFDS could not load {name!r}: {error}") from error
    return pairs.map(lambda pair: (pair[source], pair[target]))


def _tfds_info(data):
    import tensorflow_datasets as tfds

    name = data.removeprefix("tfds:")
    try:
        return tfds.builder(name).info
    except Exception as error:
        raise CorpusError(f"TFDS has no dataset {name!r}: {error}") from error


def _tfds_splits(data):
    """The splits of a prepared dataset; for one that is not prepared, the usual ones."""
    return list(_tfds_info(data).splits) or ["train", "validation", "test"]


def _folder(data, source, target, split, checked):
    files = [_folder_files(data, language) for language in (source, target)]
    for language, found in zip((source, target), files, strict=True):
        if not found:
            raise CorpusError(
                f"{data} has no files of the language {language!r}: expected "
                f"{language}.{split}.txt or {split}.{language}; it has "
                + (", ".join(sorted(path.name for path in Path(data).iterdir())[:12]) or "nothing")
                + "."
            )
    for found, other in (files, files[::-1]):
        if split in found and split not in other:
            raise CorpusError(f"{data} has {found[split].name}, but not its other side.")
    _check_split(data, sorted(set(files[0]) & set(files[1])), split)
    paths = [found[split] for found in files]
    for path in paths:
        if path.stat().st_size == 0:
            raise CorpusError(f"{path} is empty.")
    sides = [lines(path, checked) for path in paths]
    for number, pair in enumerate(itertools.zip_longest(*sides), start=1):
        if None in pair:
            sizes = [
                number - 1 if line is None else number + sum(1 for _ in side)
                for line, side in zip(pair, sides, strict=True)
            ]
            raise CorpusError(
                f"{paths[0]} has {sizes[0]:,} lines and {paths[1]} has {sizes[1]:,}: line "
                f"{number} has no other side. Both must have the same sentences line by line."
            )
        yield pair


def _folder_files(data, language):
    """The files of a language, by split; LANG.SPLIT.txt and uncompressed ones come first."""
    files, others = {}, {}
    for path in sorted(filter(Path.is_file, Path(data).iterdir()), reverse=True):
        parts = strip_compression(path.name).split(".")
        if len(parts) == 3 and parts[0] == language and parts[2] == "txt":
            files[parts[1]] = path
        elif len(parts) == 2 and parts[1] == language:
            others[parts[0]] = path
    return {**others, **files}


def _tsv(data, source, target, split, checked):
    splits = set()
    for *pair, found in _rows(data, source, target, split if checked else None):
        splits.add(found or split)
        if found in (None, split):
            yield tuple(pair)
    if splits:
        _check_split(data, sorted(splits), split)


def _tmx(data, source, target, split, checked):
    for number, pair in enumerate(tmx_pairs(data, source, target), start=1):
        for text in pair if checked else ():
            _check_text(text, f"{data}: pair", number)
        yield pair


def _rows(data, source, target, checked=None):
    """The rows of a `.tsv` file: source, target, and the split (None without such a column).

    A side that is missing, blank or not UTF-8 is refused in the split `checked`.
    """
    header = next(lines(data, checked=False), b"").decode("utf-8", "replace").split("\t")
    if (source in header) != (target in header):
        missing = target if source in header else source
        raise CorpusError(f"{data}:1 names no column {missing!r}; it has {', '.join(header)}.")
    if len(header) > 2 and "split" in header and source not in header:
        raise CorpusError(
            f"{data}:1 names a column split, but neither {source!r} nor {target!r}: give the "
            f"languages as the header does; it has {', '.join(header)}."
        )
    columns, split_column = (0, 1), None
    if source in header:
        columns = header.index(source), header.index(target)
        split_column = header.index("split") if "split" in header else None
    width = max(*columns, split_column or 0) + 1
    first = 1 if source in header else 0
    rows = itertools.islice(enumerate(lines(data, checked=False), start=1), first, None)
    for number, line in rows:
        given = line.split(b"\t")
        fields = given + [b""] * (width - len(given))
        pair, split = [fields[i] for i in columns], None
        if split_column is not None:
            split = fields[split_column].decode("utf-8", "replace").strip() or "train"
        if checked is not None and split in (None, checked):
            _check_text(line, data, number)
            if len(given) < width:
                raise CorpusError(
                    f"{data}:{number} has {len(given)} columns; at least {width} are needed, "
                    "with tabs between them."
                )
            for text in pair:
                _check_text(text, data, number)
        yield *pair, split


def lines(path: str | os.PathLike, checked: bool = True) -> Iterator[bytes]:
    """The lines of a file, split at newline bytes only.

    `tf.data.TextLineDataset` would also drop each carriage return inside a line.
    """
    with open_read(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if checked:
                _check_text(line, path, number)
            yield line


def _check_text(line, path, number):
    """Raises CorpusError, which names the line, if it is blank or not UTF-8."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{number} is not UTF-8 (byte {error.start + 1} of the line): convert the file "
            "to UTF-8."
        ) from None
    if not text or text.isspace():
        raise CorpusError(
            f"{path}:{number} is blank: remove this pair from both sides, as `keras-mt clean` does."
        )


def dataset_of(pairs: Callable[[], Iterable[tuple[bytes, bytes]]]) -> tf.data.Dataset:
    """A dataset of the pairs from the iterator that a function returns."""

    def chunks():  # Each step from Python to TensorFlow costs far more than a pair.
        remaining = iter(pairs())
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            yield tuple(zip(*chunk, strict=True))

    return untuned(
        tf.data.Dataset.from_generator(
            chunks, output_signature=(tf.TensorSpec((None,), tf.string),) * 2
        ).unbatch()
    )


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset without tf.data's autotuning, whose iterators end up to 10 s late."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _check_languages(data, languages, source, target):
    for code in (source, target):
        if code not in languages:
            raise CorpusError(f"{data} has no language {code!r}; it has {', '.join(languages)}.")


def _check_split(data, splits, split):
    if split not in splits:
        raise CorpusError(f"{data} has no split {split!r}; it has {', '.join(splits) or 'none'}.")
