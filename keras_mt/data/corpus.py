"""Parallel text from TensorFlow Datasets, a folder, a file, or the embedded phrasebook."""

import codecs
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from keras_mt.compressed import open_read, strip_compression
from keras_mt.data import phrasebook
from keras_mt.data.tmx import tmx_pairs
from keras_mt.errors import CorpusError
from keras_mt.extras import require

if TYPE_CHECKING:  # Corpora can be read without it.
    import tensorflow as tf

_CHUNK = 1024  # Pairs handed to TensorFlow at a time.
# What also counts as the split `validation`, in this order, where there is none of that name.
_VALIDATION = ("valid", "val", "dev")


def load_corpus(data: str | os.PathLike, source: str, target: str, split: str) -> "tf.data.Dataset":
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
    corpus = open_corpus(data, source, target)
    # A set of TensorFlow Datasets is as it is.
    if not isinstance(corpus, _Tfds) and not sum(1 for _ in corpus.pairs(split)):
        raise CorpusError(f"{data} is empty.")
    return corpus.dataset(split)


def has_split(data: str | os.PathLike, source: str, target: str, split: str) -> bool:
    """True if the corpus has a split, by the names that `load_corpus` takes.

    A `.tmx` file, and a `.tsv` file without a column `split`, count as `train` only.
    """
    corpus = open_corpus(data, source, target)
    return corpus.own_name(split) in corpus.splits


def open_corpus(data: str | os.PathLike, source: str, target: str) -> "Corpus":
    """The corpus that a name means, for two languages."""
    if source == target:
        raise CorpusError(f"source and target must differ. Received: {source!r} for both")
    data, path = str(data), Path(data)
    if data.startswith("tfds:"):
        return _Tfds(data, source, target)
    if data == "phrasebook":
        return _Tsv(data, source, target, phrasebook.FILE)
    if path.is_dir():
        return _Folder(data, source, target)
    suffix = Path(strip_compression(data)).suffix
    if path.is_file() and suffix in (".tsv", ".tmx"):
        return (_Tsv if suffix == ".tsv" else _Tmx)(data, source, target)
    raise CorpusError(
        f"There is no corpus {data!r}: give tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG "
        "files, a .tsv or .tmx file, or phrasebook."
    )


class Corpus:
    """A corpus for two languages.

    Its kinds say which `splits` it has, and read them: `_rows(split)` yields for each pair the
    number of its line, both sides, and what is wrong, or None.
    """

    splits: Iterable[str]

    def __init__(self, data: str, source: str, target: str):
        self.data, self.languages = data, (source, target)

    def _place(self, split, side, number):
        """The place of a side of a pair, for messages."""
        return f"{self.data}:{number}"

    def own_name(self, split: str) -> str:
        """The corpus's own name of a split, which is another one for some `validation`."""
        if split != "validation" or split in self.splits:
            return split
        return next((name for name in _VALIDATION if name in self.splits), split)

    def pairs(self, split: str, checked: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Yields the pairs of a split; CorpusError, which names the line, if one is wrong."""
        split = self.own_name(split)
        for number, pair, problem in self._rows(split):
            for side, text in enumerate(pair if checked else ()):
                if found := problem or _problem(text):
                    raise CorpusError(f"{self._place(split, side, number)} {found}")
            yield pair

    def usable_pairs(self, split: str) -> Iterator[tuple[bytes, bytes]]:
        """The pairs of a split of which no side is blank or not UTF-8."""
        return (pair for pair in self.pairs(split, checked=False) if not any(map(_problem, pair)))

    def dataset(self, split: str) -> "tf.data.Dataset":
        """The pairs of a split, which are not checked."""
        return dataset_of(lambda: self.pairs(split, checked=False))

    def _check_has(self, kind, names, known):
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise CorpusError(f"{self.data} has no {kind} {name!r}; it has {listed}.")


class _Tfds(Corpus):
    """A set of TensorFlow Datasets, whose lines are not checked."""

    def __init__(self, data: str, source: str, target: str):
        super().__init__(data, source, target)
        self._tfds = require("tensorflow_datasets", "tfds", f"The corpus {data!r}")
        self._name = data.removeprefix("tfds:")

    @functools.cached_property
    def _info(self):
        try:
            return self._tfds.builder(self._name).info
        except Exception as error:
            raise CorpusError(f"TFDS has no dataset {self._name!r}: {error}") from error

    @functools.cached_property
    def splits(self):
        # Of one that is not prepared they are not known.
        return list(self._info.splits) or ["train", "validation", "test"]

    def dataset(self, split):
        split = self.own_name(split)
        source, target = self.languages
        features = [feature for feature in self._info.features if feature != "id"]
        self._check_has("language", self.languages, features)
        config = self._tfds.ReadConfig(try_autocache=False)  # Never held whole.
        try:
            pairs = self._tfds.load(self._name, split=split, read_config=config)
        except Exception as error:
            self._check_has("split", [split], self.splits)
            raise CorpusError(f"TFDS could not load {self._name!r}: {error}") from error
        return pairs.map(lambda pair: (pair[source], pair[target]))

    def pairs(self, split, checked=True):
        return self.dataset(split).as_numpy_iterator()


class _Folder(Corpus):
    """A folder of LANG.SPLIT.txt or SPLIT.LANG files."""

    def __init__(self, data: str, source: str, target: str):
        super().__init__(data, source, target)
        self._names = sorted(path.name for path in Path(data).iterdir() if path.is_file())
        self._files = [self._files_of(language) for language in self.languages]

    def _files_of(self, language):
        """The files of a language, by split; LANG.SPLIT.txt and uncompressed ones come first."""
        files, others = {}, {}
        for name in reversed(self._names):
            match strip_compression(name).split("."):
                case [code, split, "txt"] if code == language:
                    files[split] = Path(self.data, name)
                case [split, code] if code == language:
                    others[split] = Path(self.data, name)
        return {**others, **files}

    @functools.cached_property
    def splits(self):
        return self._files[0].keys() & self._files[1].keys()

    def _place(self, split, side, number):
        return f"{self._files[side][split]}:{number}"

    def _rows(self, split):
        paths = [files.get(split) for files in self._files]
        if None in paths:
            language = self.languages[paths.index(None)]
            raise CorpusError(
                f"{self.data} has no split {split!r} of {language!r}: expected "
                f"{language}.{split}.txt or {split}.{language}; it has "
                f"{', '.join(self._names[:12]) or 'nothing'}."
            )
        for number, pair in enumerate(itertools.zip_longest(*map(lines, paths)), start=1):
            if None in pair:
                sizes = [sum(1 for _ in lines(path)) for path in paths]
                raise CorpusError(
                    f"{paths[0]} has {sizes[0]:,} lines and {paths[1]} has {sizes[1]:,}: line "
                    f"{number} has no other side. Both must have the same sentences line by line."
                )
            yield number, pair, None


class _Tsv(Corpus):
    """A `.tsv` file, whose first line may be a header."""

    def __init__(self, data: str, source: str, target: str, path: Path | None = None):
        super().__init__(data, source, target)
        self._path = path or data
        header = next(lines(self._path), b"").decode("utf-8", "replace").split("\t")
        self._columns, self._split_column, self._first_row = (0, 1), None, 1
        if {source, target} & {*header} or ("split" in header and len(header) > 2):
            names = [name for name in header if name != "split"]
            self._check_has("language", self.languages, names)
            self._columns, self._first_row = tuple(map(header.index, self.languages)), 2
            self._split_column = header.index("split") if "split" in header else None

    def _lines(self):
        """Yields for each row its number, its line, its fields and its split, None for any."""
        rows = enumerate(lines(self._path), start=1)
        for number, line in itertools.islice(rows, self._first_row - 1, None):
            fields, split = line.split(b"\t"), None
            if self._split_column is not None:
                named = b"".join(fields[self._split_column :][:1])
                split = named.decode("utf-8", "replace").strip() or "train"
            yield number, line, fields, split

    @functools.cached_property
    def splits(self):
        return {split or "train" for *_, split in self._lines()}

    def _rows(self, split):
        found, needed = set(), max(*self._columns, self._split_column or 0) + 1
        for number, line, fields, own in self._lines():
            found.add(own or split)
            if own not in (None, split):
                continue
            problem = _problem(line)
            if len(fields) < needed and not problem:
                problem = f"has {len(fields)} columns; at least {needed} are needed, with tabs."
            padded = fields + [b""] * (needed - len(fields))
            yield number, tuple(padded[i] for i in self._columns), problem
        if found:
            self._check_has("split", [split], sorted(found))


class _Tmx(Corpus):
    """A translation memory."""

    splits = ("train",)

    def _place(self, split, side, number):
        return f"{self.data}: pair {number}"

    def _rows(self, split):
        for number, pair in enumerate(tmx_pairs(self.data, *self.languages), start=1):
            yield number, pair, None


def lines(path: str | os.PathLike) -> Iterator[bytes]:
    """The lines of a file, split at newline bytes only.

    `tf.data.TextLineDataset` would also drop each carriage return inside a line.
    """
    with open_read(path) as file:
        for number, raw in enumerate(file):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            yield line if number else line.removeprefix(codecs.BOM_UTF8)


def _problem(text):
    """The fault of a line or of one of its texts, or None."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start + 1}): convert the file to UTF-8."
    if decoded and not decoded.isspace():
        return None
    return "is blank: remove this pair from both sides, as `keras-mt clean` does."


def dataset_of(pairs: Callable[[], Iterable[tuple[bytes, bytes]]]) -> "tf.data.Dataset":
    """A dataset of the pairs from the iterator that a function returns."""
    import tensorflow as tf

    def chunks():  # Each step from Python to TensorFlow costs far more than a pair.
        remaining = iter(pairs())
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            yield tuple(zip(*chunk, strict=True))

    return without_autotune(
        tf.data.Dataset.from_generator(
            chunks, output_signature=(tf.TensorSpec((None,), tf.string),) * 2
        ).unbatch()
    )


def without_autotune(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """The dataset without tf.data's autotuning, whose iterators end up to 10 s late."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
