"""The tokenizer and the batches of a run."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_mt.data import Batches, has_split, load_corpus
from keras_mt.errors import InputError
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer, Tokenizer
from keras_mt.training.architecture import Base


def run_tokenizer(
    folder: RunFolder,
    options: TrainingOptions,
    base: Base | None,
    pairs: Sequence[tf.data.Dataset],
    config: RunConfig,
    report: Callable[[str], Any],
) -> BaseTokenizer:
    """The tokenizer of a run: the folder's, the one that is given, that of `init`, or a new one."""
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
        if options.vocab_size not in (TrainingOptions.vocab_size, given.vocab_size):
            report(
                f"vocab_size={options.vocab_size} is ignored: the tokenizer brings its own, "
                f"{given.vocab_size:,}"
            )
        return given
    limit = config.options["max_length"]  # A word has at least one token, and a sentence its end.
    texts = (corpus.as_numpy_iterator() for corpus in pairs)
    if not any(max(len(side.split()) for side in pair) < limit for part in texts for pair in part):
        raise _no_pair(config)
    report(f"training the tokenizer, at most {options.vocab_size:,} pieces")
    texts = (t for corpus in pairs for pair in corpus.as_numpy_iterator() for t in pair)
    return Tokenizer.train(texts, options.vocab_size, seed=options.seed)


def training_batches(
    folder: RunFolder,
    pairs: Sequence[tf.data.Dataset],
    tokenizer: BaseTokenizer,
    options: TrainingOptions,
    config: RunConfig,
    report: Callable[[str], Any],
) -> Batches:
    """The batches of the training pairs, which are counted."""
    batches = Batches(
        pairs,
        tokenizer,
        tokens_per_batch=config.options["batch_tokens"],
        max_length=config.options["max_length"],
        seed=options.seed,
        subword_sampling=options.subword_sampling,
        augment=options.augment,
        weights=options.corpus_weights,
        max_ratio=options.max_ratio,
        deduplicate=options.deduplicate,
        directory=folder.path,
        **run_languages(config),
    )
    report(f"train: {batches.counts}")
    if not batches.counts.batches:
        raise _no_pair(config)
    return batches


def validation_batches(
    options: TrainingOptions,
    config: RunConfig,
    tokenizer: BaseTokenizer,
    report: Callable[[str], Any],
) -> tuple[tf.data.Dataset | None, Batches | None]:
    """The pairs of the first corpus's validation split and their batches; None without one."""
    corpus, max_length = config.data[0], config.options["max_length"]
    needed = options.keep_best or options.early_stopping_patience
    if not has_split(corpus, config.source, config.target, "validation"):
        if needed or options.bleu_freq:
            raise InputError(
                f"{corpus} has no validation split, which keep_best, early_stopping_patience and "
                "bleu_freq need."
            )
        return None, None
    pairs = load_corpus(corpus, config.source, config.target, "validation")
    batches = Batches(
        pairs,
        tokenizer,
        tokens_per_batch=config.options["batch_tokens"],
        max_length=max_length,
        **run_languages(config),
    )
    report(f"validation: {batches.counts}")
    if needed and options.monitor == "val_loss" and not batches.counts.batches:
        raise InputError(
            f"{corpus} has no pair of at most max_length={max_length} tokens in its validation "
            "split, which keep_best and early_stopping_patience need."
        )
    return pairs, batches


def run_languages(config: RunConfig) -> dict[str, str | None]:
    """The languages of a run's pairs, for a multilingual model, as arguments."""
    return {name: config.options[name] for name in ("source_language", "target_language")}


def _no_pair(config):
    return InputError(
        f"{', '.join(config.data)} has no pair of at most "
        f"max_length={config.options['max_length']} tokens: raise max_length, or give another "
        "corpus."
    )
