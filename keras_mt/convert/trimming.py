"""Runs with smaller vocabularies: the pieces that some texts need, and their rows of the model."""

import bisect
import dataclasses
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import keras

from keras_mt.alignment import Shortlist
from keras_mt.compressed import strip_compression
from keras_mt.convert.hub import local_run
from keras_mt.data.corpus import lines, open_corpus
from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder
from keras_mt.models.seq2seq import clone
from keras_mt.options.search import check_language
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.text.plain import PlainTokenizer, split_sentences
from keras_mt.text.subset import Subset

# The axis of the tokens in weights of these names; in others of one's own it is what has changed.
_AXES = {"embeddings": (0,), "reverse_embeddings": (1,), "logits_bias": (0,)}
# The settings of a PretrainedTokenizer that are ids of its source, and of its target.
_SOURCE_IDS = "source_eos_id", "source_prefix", "language_tags"
_TARGET_IDS = "padding_id", "bos_id", "eos_id", "languages", "forced", "forbidden_ids"


def trim(
    run_dir: str | os.PathLike,
    output: str | os.PathLike,
    data: Sequence[str | os.PathLike],
    source: str | None = None,
    target: str | None = None,
    *,
    languages: Sequence[str] = (),
    vocab_size: int | None = None,
    shortlist: str | os.PathLike | None = None,
    architecture: str | type | None = None,
) -> RunConfig:
    """Writes a run with the pieces of another one's vocabulary that corpora need, and no others.

    This is `keras-mt trim`. Text of which all pieces are kept is cut as before, and the model
    computes the same of it. Single characters, bytes and special pieces are always kept.

    Args:
        run_dir: The run folder, imported or trained, or the name of a model on the hub.
        output: The run folder to write; the write is atomic.
        data: Corpora as `load_corpus` takes them, with all their splits; any other file is text of
            either side, line by line.
        source, target: Language codes in the corpora; those of the run by default.
        languages: The languages to keep, by the model's codes, of a model of several; all by
            default.
        vocab_size: The maximum number of tokens, of each side if they are apart: the most frequent
            ones are kept. By default, all that the corpora have.
        shortlist: A file that `keras-mt shortlist` wrote for the run: it is written for the new
            one, as `shortlist` in its folder.
        architecture: The model's class, if it is not one of keras_mt's own, or `MODULE:CLASS`.

    Returns:
        The new run's configuration, whose `trimmed` says what was done.

    Raises:
        FileExistsError: If the output exists.
        CorpusError: As of `load_corpus`.
        ValueError: If a corpus is empty, a language is unknown, `vocab_size` is too small, or the
            tokenizer or the model is none that can be trimmed.

    Example:

    >>> trim("runs/nllb", "runs/nllb_en_de", ["my_corpus"], "en", "de")  # doctest: +SKIP
    """
    check_new(output)
    folder = RunFolder(local_run(run_dir))
    folder.check_finished()
    config, tokenizer = folder.config or RunConfig([], "", ""), folder.load_tokenizer()
    left_out = _left_out(tokenizer, languages)
    if shortlist is not None:
        shortlist = Shortlist.load(shortlist)
        shortlist.check_fits(tokenizer, *shortlist.languages)
    subsets = _subsets(folder, tokenizer)
    for corpus in data:
        _count(subsets, corpus, source or config.source, target or config.target)
    model = folder.load_model(architecture)
    orders, kept = _choose(tokenizer, model, subsets, left_out, vocab_size)
    sizes = [tokenizer.source_vocab_size, tokenizer.target_vocab_size]
    models = [subset.model(pieces) for subset, pieces in zip(subsets, kept, strict=True)]
    tokenizer, model = _with_ids(tokenizer, models, orders), _with_rows(model, orders, sizes)
    trimmed = {
        "before": (config.trimmed or {}).get("before", sizes),  # The first time.
        "after": [tokenizer.source_vocab_size, tokenizer.target_vocab_size],
        "data": [Path(corpus).name for corpus in data],
    }
    config = dataclasses.replace(
        config, trimmed=trimmed, model_config=model.get_config(), **_languages(config, tokenizer)
    )
    with new_folder(output) as temporary:
        run = RunFolder(temporary)
        run.save_tokenizer(tokenizer)
        run.write_config(config)
        model.save(run.model_file)
        if shortlist is not None:
            shortlist = shortlist.of_ids(orders[0], orders[-1], tokenizer.fingerprint)
            shortlist.save(temporary / "shortlist")
    return config


def _left_out(tokenizer, languages):
    """The ids of the languages that are not kept."""
    if not isinstance(tokenizer, (Tokenizer, PretrainedTokenizer)):
        raise InputError(f"{type(tokenizer).__name__} has no SentencePiece model to be trimmed.")
    ids = dict(tokenizer.language_ids)
    ids |= {tag.strip("<>"): id for tag, id in getattr(tokenizer, "tag_ids", ())}
    for code in languages:
        check_language("language", code, [*ids])
    return {id for code, id in ids.items() if languages and code not in languages}


def _subsets(folder, tokenizer):
    """The pieces of the model that both sides share, or of each side's."""
    if isinstance(tokenizer, Tokenizer):
        return [Subset(tokenizer.model, PlainTokenizer.load(folder.path).pieces)]
    models = tokenizer.models
    number = max(len(models), len(tokenizer.settings["pieces"]))
    return [Subset(models[i % len(models)]) for i in range(number)]


def _count(subsets, data, source, target):
    """Counts the pieces of a corpus, of which sentences may be cut apart later."""
    texts = None
    for texts in _texts(data, source, target, len(subsets)):
        for subset, text in zip(itertools.cycle(subsets), texts, strict=False):
            for part in {text, *split_sentences(text)[0]}:
                subset.count(part)
    if texts is None:
        raise InputError(f"{data} has no text.")


def _texts(data, source, target, sides):
    """Both texts of each pair of a corpus; of another file each line, once for each side."""
    suffix = Path(strip_compression(data)).suffix
    if Path(data).is_file() and suffix not in (".tsv", ".tmx"):
        for line in lines(data):
            if b"\0" in line:
                raise InputError(f"{data} is not text: give its text, or a corpus.")
            yield [line.decode("utf-8", "replace")] * sides
        return
    if not (source and target):
        raise InputError(f"source and target must be given, the codes of the languages in {data}.")
    corpus = open_corpus(data, source, target)
    for split in corpus.splits or ["train"]:  # Of a corpus that has none, it says why.
        for pair in corpus.usable_pairs(split):
            yield [text.decode("utf-8") for text in pair]


def _choose(tokenizer, model, subsets, left_out, vocab_size):
    """The ids of each table to keep, in their new order, and the pieces of each model."""
    tables, special = [subsets[0].pieces], ()
    if isinstance(tokenizer, PretrainedTokenizer):
        tables, special = (tokenizer.settings[name] for name in ("pieces", "special"))
    gone = {tables[0][id] for id in left_out}
    kept = [subset.always() - gone for subset in subsets]
    ids = [{p: id for id, p in enumerate(table)} for table in (tables[0], tables[-1])]
    rows = [
        own | {known[piece] for piece in special if piece in known}
        for own, known in zip(_special_ids(tokenizer, model, left_out), ids, strict=True)
    ]
    groups = [[0], [1]]  # Sides that share their ids.
    if len(tables) == 1 or model.get_config().get("share_embeddings"):
        rows, groups = [rows[0] | rows[1]] * 2, [range(len(subsets))]
    for group in groups:
        row = rows[group[0]]
        row.update(ids[n][piece] for n in group for piece in kept[n] if piece in ids[n])
        if vocab_size is not None and len(row) > vocab_size:
            raise InputError(
                f"vocab_size={vocab_size} is too small: special pieces, single characters and "
                f"bytes alone are {len(row)}."
            )
        counts = [(n, *each) for n in group for each in subsets[n].needed().items()]
        # A part of a piece is needed as often, and shorter: it comes first.
        counts.sort(key=lambda each: (-each[2], len(each[1]), each[1]))
        for n, piece, _ in counts:
            id = ids[n].get(piece)
            if id is None:
                kept[n].add(piece)  # It stays unknown.
            elif id not in row and piece not in gone:
                if len(row) == vocab_size:
                    break
                row.add(id)
        for n in group:
            kept[n] |= {piece for piece, id in ids[n].items() if id in row}
    padding = tokenizer.padding_id
    others = [sorted(row - {padding}) for row in rows[: len(tables)]]
    place = min(bisect.bisect(row, padding) for row in others)  # The same one on both sides.
    return [[*row[:place], padding, *row[place:]] for row in others], kept


def _special_ids(tokenizer, model, left_out):
    """The ids that no text has, of the source and of the target."""
    languages = {id for _, id in tokenizer.language_ids} - left_out
    tags = {id for _, id in getattr(tokenizer, "tag_ids", ())} - left_out
    start = {tokenizer.bos_id, model.get_config().get("zero_id")} - {None}
    _, (end, *_) = tokenizer.around_source(None)
    sides = {end, *tokenizer.source_prefix, *tags}, {*start, tokenizer.eos_id, *tokenizer.forced}
    return [languages | {tokenizer.padding_id, *side} for side in sides]


def _with_ids(tokenizer, models, orders):
    """The tokenizer with these models, and these rows of its tables."""
    if isinstance(tokenizer, Tokenizer):
        return Tokenizer(models[0])
    settings = tokenizer.settings
    for names, order in ((_SOURCE_IDS, orders[0]), (_TARGET_IDS, orders[-1])):
        settings |= {name: _renumbered(settings[name], order) for name in names}
    tables = zip(settings["pieces"], orders, strict=True)
    settings["pieces"] = [[table[id] for id in order] for table, order in tables]
    return PretrainedTokenizer(models if models[0] != models[-1] else models[:1], **settings)


def _renumbered(value, order):
    """An id or None, or ids in a list or by names, by their places; those without one are gone."""
    new = dict(zip(order, itertools.count(), strict=False))
    if isinstance(value, dict):
        return {name: new[id] for name, id in value.items() if id in new}
    if isinstance(value, list):
        return [new[id] for id in value if id in new]
    return new.get(value)


def _with_rows(model, orders, sizes):
    """The model with these rows of its tables of the sizes."""
    config = model.get_config()
    if "vocab_size" not in config:
        raise InputError(f"{type(model).__name__} has no argument vocab_size, to be made smaller.")
    changes = {"vocab_size": len(orders[0]), "target_vocab_size": len(orders[-1])}
    changes |= {n: _renumbered(config.get(n), orders[-1]) for n in ("padding_id", "zero_id")}
    copy = clone(model, **{name: x for name, x in changes.items() if name in config})
    for weight, variable in zip(model.weights, copy.weights, strict=True):
        values, side = keras.ops.convert_to_numpy(weight), "source_emb" not in weight.path
        others = [i for i, size in enumerate(values.shape) if size != variable.shape[i]]
        for axis in _AXES.get(weight.path.rpartition("/")[2], others):
            if values.shape[axis] == sizes[side]:
                values = values.take(orders[-side], axis)
        if values.shape != variable.shape:
            raise InputError(f"The tokens in {weight.path}, {weight.shape}, cannot be told apart.")
        variable.assign(values)
    return copy


def _languages(config, tokenizer):
    """The parts of a configuration that name languages, with those that the tokenizer has."""
    codes = tokenizer.languages
    kept = {name: code if code in codes else None for name, code in config.languages.items()}
    # The source's is without effect where that of the target stands on the source.
    if config.options.source_language and codes and tokenizer.target_on_source:
        kept["source_language"] = kept["source_language"] or codes[0]
    pairs = config.pairs and {
        pair: data for pair, data in config.pairs.items() if {*pair.split("-")} <= {*codes}
    }
    return {"options": dataclasses.replace(config.options, **kept), "pairs": pairs}
