"""Parallel text from wherever it lies: TFDS, a folder, a file, or the embedded phrasebook."""

import itertools
from pathlib import Path

import tensorflow as tf

from keras_mt.data import phrasebook


class CorpusError(ValueError):
    """A corpus that cannot be used; the message says where and why."""


def load_corpus(data, source, target, split):
    """Streams the sentence pairs of a corpus.

    Args:
        data: One of
            - `tfds:NAME`: a translation dataset of TensorFlow Datasets, such as
              `tfds:ted_hrlr_translate/pt_to_en`.
            - A folder of `LANG.SPLIT.txt` or `SPLIT.LANG` files, a sentence a line, aligned.
            - A `.tsv` file. If its first line names both languages, it is a header, whose column
              `split`, if any, says each row's split; otherwise its first two columns are source
              and target. Without a column `split` the file is whatever split is asked for.
            - `phrasebook`: the embedded corpus, `pt` and `en`.
        source: Language code of the source.
        target: Language code of the target.
        split: Name of the split, such as `train`, `validation` or `test`.

    Returns:
        A `tf.data.Dataset` of pairs of string scalars, in the corpus's order. Files are split on
        newline bytes alone and checked, but never held, whole.

    Raises:
        CorpusError: If there is no such corpus, language or split, or a file is malformed: sides
            that do not align, a line that is blank or not UTF-8.

    Example:

    >>> pairs = load_corpus("phrasebook", "pt", "en", "test")
    >>> next(pairs.as_numpy_iterator())[0].decode()
    'Em Dezembro, Lucas irá viajar ao Rio.'
    """
    data = str(data)
    if source == target:
        raise CorpusError(f"Source and target must differ. Received: {source!r} for both")
    return _reader(data)(data, source, target, split)


def has_split(data, source, target, split):
    """Whether the corpus has a split; a `.tsv` file without a column `split` is all `train`."""
    data = str(data)
    return split in {
        _tfds: _tfds_splits,
        _phrasebook: lambda *_: phrasebook.SPLITS,
        _tsv: _tsv_splits,
        _folder: _folder_splits,
    }[_reader(data)](data, source, target)


def _reader(data):
    if data.startswith("tfds:"):
        return _tfds
    if data == "phrasebook":
        return _phrasebook
    if Path(data).is_dir():
        return _folder
    if data.endswith(".tsv") and Path(data).is_file():
        return _tsv
    raise CorpusError(
        f"There is no corpus {data!r}: give tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG "
        "files, a .tsv file, or phrasebook."
    )


def _phrasebook(data, source, target, split):
    _check_languages(data, phrasebook.LANGUAGES, source, target)
    _check_split(data, phrasebook.SPLITS, split)
    order = [phrasebook.LANGUAGES.index(language) for language in (source, target)]

    def generate():
        for pair in phrasebook.pairs(split):
            yield pair[order[0]], pair[order[1]]

    return tf.data.Dataset.from_generator(
        generate, output_signature=(tf.TensorSpec((), tf.string),) * 2
    )


def _tfds(data, source, target, split):
    import tensorflow_datasets as tfds

    name = data.removeprefix("tfds:")
    try:
        languages = [feature for feature in tfds.builder(name).info.features if feature != "id"]
    except Exception as error:
        raise CorpusError(f"TFDS has no dataset {name!r}: {error}") from error
    _check_languages(data, languages, source, target)
    try:
        pairs = tfds.load(name, split=split, shuffle_files=False)
    except Exception as error:
        _check_split(data, _tfds_splits(data, source, target), split)
        raise CorpusError(f"TFDS could not load {name!r}: {error}") from error
    return pairs.map(lambda pair: (pair[source], pair[target]))


def _tfds_splits(data, source, target):
    """The splits of a prepared dataset; of another, those that datasets usually have."""
    import tensorflow_datasets as tfds

    splits = tfds.builder(data.removeprefix("tfds:")).info.splits
    return list(splits) or ["train", "validation", "test"]


def _folder(data, source, target, split):
    files = [_folder_files(data, language) for language in (source, target)]
    for language, found in zip((source, target), files, strict=True):
        if not found:
            raise CorpusError(
                f"{data} has no files of the language {language!r}: expected "
                f"{language}.{split}.txt or {split}.{language}; it has "
                + (", ".join(sorted(path.name for path in Path(data).iterdir())[:12]) or "nothing")
                + "."
            )
    _check_split(data, sorted(set(files[0]) & set(files[1])), split)
    paths = [found[split] for found in files]
    for path in paths:
        if path.stat().st_size == 0:
            raise CorpusError(f"{path} is empty.")
    with open(paths[0], "rb") as first, open(paths[1], "rb") as second:
        lines = [0, 0]
        for number, pair in enumerate(itertools.zip_longest(first, second), start=1):
            for side, line in enumerate(pair):
                if line is not None:
                    lines[side] = number
                    _check_text(line, paths[side], number)
    if lines[0] != lines[1]:
        raise CorpusError(
            f"{paths[0]} has {lines[0]:,} lines and {paths[1]} has {lines[1]:,}: line "
            f"{min(lines) + 1} has no other side. Both must have the same sentences line by line."
        )
    return tf.data.Dataset.zip(tuple(tf.data.TextLineDataset(str(path)) for path in paths))


def _folder_splits(data, source, target):
    return set(_folder_files(data, source)) & set(_folder_files(data, target))


def _folder_files(data, language):
    """The files of a language, by split."""
    files = {}
    for path in sorted(Path(data).iterdir()):
        parts = path.name.split(".")
        if len(parts) == 3 and parts[0] == language and parts[2] == "txt":
            files[parts[1]] = path
        elif len(parts) == 2 and parts[1] == language:
            files.setdefault(parts[0], path)
    return files


def _tsv(data, source, target, split):
    columns, split_column = _tsv_columns(data, source, target)
    header = columns is not None
    columns = columns or (0, 1)
    width = max(*columns, split_column or 0) + 1
    splits = set()
    with open(data, "rb") as file:
        for number, line in enumerate(file, start=1):
            if header and number == 1:
                continue
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) < width:
                raise CorpusError(
                    f"{data}:{number} has {len(fields)} columns; at least {width} are needed, "
                    "with tabs between them."
                )
            for column in columns:
                _check_text(fields[column], data, number)
            splits.add(split if split_column is None else fields[split_column].decode())
    if not splits:
        raise CorpusError(f"{data} is empty.")
    _check_split(data, sorted(splits), split)

    def fields(line):
        parts = tf.strings.split(line, "\t")
        kept = True if split_column is None else parts[split_column] == split
        return parts[columns[0]], parts[columns[1]], kept

    rows = tf.data.TextLineDataset(data).skip(int(header)).map(fields)
    return rows.filter(lambda source, target, kept: kept).map(
        lambda source, target, _: (source, target)
    )


def _tsv_splits(data, source, target):
    split_column = _tsv_columns(data, source, target)[1]
    if split_column is None:
        return ["train"]
    with open(data, "rb") as file:
        return {line.rstrip(b"\r\n").split(b"\t")[split_column].decode() for line in file}


def _tsv_columns(data, source, target):
    """The columns of the languages and of the split, by the header; None where there is none."""
    with open(data, "rb") as file:
        names = file.readline().decode("utf-8", "replace").rstrip("\r\n").split("\t")
    if source in names and target in names:
        split_column = names.index("split") if "split" in names else None
        return (names.index(source), names.index(target)), split_column
    if source in names or target in names:
        missing = target if source in names else source
        raise CorpusError(f"{data}:1 names no column {missing!r}; it has {', '.join(names)}.")
    return None, None


def _check_text(line, path, number):
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{number} is not UTF-8 (byte {error.start + 1} of the line): convert the file."
        ) from None
    if not text.strip():
        raise CorpusError(f"{path}:{number} is blank: take the pair out of both sides.")


def _check_languages(data, languages, source, target):
    for language in (source, target):
        if language not in languages:
            raise CorpusError(
                f"{data} has no language {language!r}; it has {', '.join(languages)}."
            )


def _check_split(data, splits, split):
    if split not in splits:
        raise CorpusError(f"{data} has no split {split!r}; it has {', '.join(splits) or 'none'}.")
