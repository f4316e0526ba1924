"""The tokenizer and the batches of a run."""

import os
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from keras_mt.data import Batches, Cleaning, has_split, load_corpus
from keras_mt.data.rules import rule_names
from keras_mt.errors import InputError
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer, Tokenizer
from keras_mt.training.architecture import Run
from keras_mt.training.recommend import DEFAULTS


def training_pairs(run: Run, data: str) -> tf.data.Dataset:
    """The training pairs of a corpus; with the option `clean`, those that break no rule."""
    if not run.options.clean:
        return load_corpus(data, run.source, run.target, "train")
    cleaning = Cleaning(data, run.source, run.target, rule_names())
    run.report(f"cleaned {data}: {cleaning}")
    return cleaning.dataset()


def run_tokenizer(run: Run, pairs: Sequence[tf.data.Dataset]) -> BaseTokenizer:
    """The tokenizer of a run: the folder's, the one that is given, that of `init`, or a new one."""
    folder, options, base = run.folder, run.options, run.base
    given = options.tokenizer
    if isinstance(given, (str, os.PathLike)):
        of_run = Path(given).is_dir()
        path = RunFolder(given).tokenizer_path if of_run else Path(given)
        if not path.exists():
            raise FileNotFoundError(
                f"There is no tokenizer at {path}: give a tokenizer.model, or a run folder that "
                "has one."
            )
        given = RunFolder(given).load_tokenizer() if of_run else Tokenizer.load(path)
    if folder.tokenizer_path.exists():
        tokenizer = folder.load_tokenizer(None if given is None else type(given))
        if given is not None and given.fingerprint != tokenizer.fingerprint:
            raise InputError(
                f"{folder} holds a run with another tokenizer: give the same tokenizer, or none, "
                "to resume it, or another output folder."
            )
        return tokenizer
    if given is None and base is not None:
        given = base.folder.load_tokenizer()
    if given is not None:
        unasked = (run.recommended or DEFAULTS)["vocab_size"]
        if options.vocab_size not in (unasked, given.vocab_size):
            run.report(
                f"vocab_size={options.vocab_size} is ignored: the tokenizer brings its own, "
                f"{given.vocab_size:,}"
            )
        return given
    limit = run.config.options[
        "max_length"
    ]  # A word has at least one token, and a sentence its end.
    texts = (corpus.as_numpy_iterator() for corpus in pairs)
    if not any(max(len(side.split()) for side in pair) < limit for part in texts for pair in part):
        raise _no_pair(run.config)
    run.report(f"training the tokenizer, at most {options.vocab_size:,} pieces")
    texts = (t for corpus in pairs for pair in corpus.as_numpy_iterator() for t in pair)
    return Tokenizer.train(texts, options.vocab_size, seed=options.seed)


def training_batches(
    run: Run, pairs: Sequence[tf.data.Dataset], tokenizer: BaseTokenizer
) -> Batches:
    """The batches of the training pairs, which are counted."""
    options = run.options
    batches = _batches(
        run,
        "train",
        pairs,
        tokenizer,
        seed=options.seed,
        subword_sampling=options.subword_sampling,
        augment=options.augment,
        weights=options.corpus_weights,
        max_ratio=options.max_ratio,
        deduplicate=options.deduplicate,
        directory=run.folder.path,
    )
    if not batches.counts.batches:
        raise _no_pair(run.config)
    return batches


def validation_batches(
    run: Run, tokenizer: BaseTokenizer
) -> tuple[tf.data.Dataset | None, Batches | None]:
    """The pairs of the first corpus's validation split and their batches; None without one."""
    options, corpus = run.options, (run.corpora[0], run.source, run.target, "validation")
    needed = options.keep_best or options.early_stopping_patience
    if not has_split(*corpus):
        if needed or options.bleu_freq:
            raise InputError(
                f"{corpus[0]} has no validation split, which keep_best, early_stopping_patience "
                "and bleu_freq need."
            )
        return None, None
    pairs = load_corpus(*corpus)
    batches = _batches(run, "validation", pairs, tokenizer)
    if needed and options.monitor == "val_loss" and not batches.counts.batches:
        raise InputError(
            f"{corpus[0]} has no pair of at most max_length={batches.max_length} tokens in its "
            "validation split, which keep_best and early_stopping_patience need."
        )
    return pairs, batches


def _batches(run, name, pairs, tokenizer, **options):
    limits = run.config.options["batch_tokens"], run.config.options["max_length"]
    batches = Batches(pairs, tokenizer, *limits, **options, **run_languages(run.config))
    run.report(f"{name}: {batches.counts}")
    return batches


def run_languages(config: RunConfig) -> dict[str, str | None]:
    """The languages of a run's pairs, for a multilingual model, as arguments."""
    return {name: config.options[name] for name in ("source_language", "target_language")}


def _no_pair(config):
    return InputError(
        f"{', '.join(config.data)} has no pair of at most "
        f"max_length={config.options['max_length']} tokens: raise max_length, or give another "
        "corpus."
    )
