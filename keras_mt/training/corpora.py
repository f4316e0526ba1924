"""The tokenizer and the batches of a run."""

import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_mt.data import Batches, Cleaning, has_split, load_corpus
from keras_mt.data.cleaning_rules import rule_names
from keras_mt.data.corpus import dataset_of, is_usable, raw_pairs
from keras_mt.errors import InputError
from keras_mt.options import check_language
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer, Tokenizer
from keras_mt.text.tokenizer import sample_texts
from keras_mt.training.architecture import Run
from keras_mt.training.recommend import DEFAULTS

# The maximum number of texts that a vocabulary of several languages is trained on.
_TEXTS = 1_000_000
_TEMPERATURE = 5.0  # As of M2M-100, and of Arivazhagan et al. 2019.


class Validation(dict[str, Batches]):
    """The batches of the validation splits of a run by their languages, as `en-de`; "" for two."""

    @property
    def pairs(self) -> dict[str, tf.data.Dataset]:
        return {name: batches.pairs[0] for name, batches in self.items()}

    @property
    def steps(self) -> dict[str, int]:
        """The numbers of batches."""
        return {name: batches.counts.batches for name, batches in self.items()}

    def epoch(self, shard: tuple) -> tf.data.Dataset:
        """The batches of all, those of one after those of another, as of `Batches.epoch`."""
        parts = [part.epoch(0, shard) for part in self.values() if part.counts.batches]
        return functools.reduce(tf.data.Dataset.concatenate, parts)


def run_corpora(data: Any, source: Any, target: Any, pairs: Any) -> dict[str, Any]:
    """The corpora and languages that a run was given, as arguments of `Run`."""
    three = {"data": data, "source": source, "target": target}
    if any((value is None) != (pairs is not None) for value in three.values()):
        given = {name: x for name, x in {**three, "pairs": pairs}.items() if x is not None}
        received = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise InputError(
            "Give `data`, `source` and `target`, or `pairs` in place of all three. "
            f"Received: {received or 'none of them'}"
        )
    if pairs is None:
        names = data if isinstance(data, (list, tuple)) else [data]
        return {"corpora": [str(name) for name in names], "source": source, "target": target}
    if not isinstance(pairs, Mapping) or not pairs:
        raise InputError(f"pairs must be a dict, such as {{'en-de': DATA}}. Received: {pairs!r}")
    for pair, name in pairs.items():
        codes = re.fullmatch(r"(\w+)-(\w+)", str(pair))
        one_corpus = isinstance(name, (str, os.PathLike)) and str(name)
        if not codes or codes[1] == codes[2] or not one_corpus:
            raise InputError(
                "A pair must be SOURCE-TARGET=DATA, such as en-de=my_corpus: codes of two "
                "different languages (letters, digits and _), and one corpus. "
                f"Received: {pair}={name}"
            )
    pairs = {pair: str(name) for pair, name in pairs.items()}
    return {"corpora": [*pairs.values()], "source": "mul", "target": "mul", "pairs": pairs}


def training_pairs(run: Run, data: str, source: str, target: str) -> tf.data.Dataset:
    """The training pairs of a corpus; with the option `clean`, those that break no rule."""
    if not run.options.clean:
        return load_corpus(data, source, target, "train")
    cleaning = Cleaning(data, source, target, rule_names())
    run.report(f"cleaned {data}: {cleaning}")
    return cleaning.dataset()


def _validation_pairs(run, data, source, target):
    """The validation pairs of a corpus; with the option `clean`, those that are not refused."""
    corpus = data, source, target, "validation"
    if not run.options.clean:
        return load_corpus(*corpus)
    return dataset_of(lambda: filter(is_usable, raw_pairs(*corpus)))


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
    limit = run.config.options["max_length"]  # Words are tokens, or several; an end is one too.
    texts = (corpus.as_numpy_iterator() for corpus in pairs)
    if not any(max(len(side.split()) for side in pair) < limit for part in texts for pair in part):
        raise _no_pair(run.config)
    run.report(f"training the tokenizer, at most {options.vocab_size:,} pieces")
    texts = (t for corpus in pairs for pair in corpus.as_numpy_iterator() for t in pair)
    texts = texts if run.pairs is None else _even_texts(run, pairs)
    return Tokenizer.train(texts, options.vocab_size, seed=options.seed, languages=run.codes)


def _even_texts(run: Run, pairs: Sequence[tf.data.Dataset]) -> Iterator[bytes]:
    """Texts of all languages, about as many characters of each: those of the smaller repeat."""
    corpora = {}
    for (data, *codes), corpus in zip(run.directions, pairs, strict=True):
        for side, code in enumerate(codes):  # Each text once, whatever its directions.
            corpora.setdefault(code, {}).setdefault(data, (corpus, side))
    texts = []
    for sides in corpora.values():
        every = (pair[i] for corpus, i in sides.values() for pair in corpus.as_numpy_iterator())
        texts.append(sample_texts(every, _TEXTS // len(corpora), run.options.seed))
    most = max(sum(map(_characters, part)) for part in texts)
    for part in texts:
        left = most
        for text in itertools.cycle(part):
            if left <= 0:
                break
            left -= _characters(text)
            yield text


def _characters(text):
    return len(text.decode("utf-8", "replace")) + 1  # And its end.


def training_batches(
    run: Run, pairs: Sequence[tf.data.Dataset], tokenizer: BaseTokenizer
) -> Batches:
    """The batches of the training pairs, which are counted."""
    options = run.options
    if run.pairs is not None and not tokenizer.languages:
        raise InputError(
            "The tokenizer has no languages, which pairs need: leave tokenizer or init out, or "
            "give those of a run for several languages."
        )
    for code in run.codes:
        check_language("A language of pairs", code, tokenizer.languages)
    temperature = _TEMPERATURE if run.pairs is not None and not options.corpus_weights else None
    batches = _batches(
        run,
        "train",
        run.directions,
        pairs,
        tokenizer,
        seed=options.seed,
        subword_sampling=options.subword_sampling,
        augment=options.augment,
        weights=options.corpus_weights,
        temperature=temperature,
        directory=run.temporary,
    )
    if not batches.counts.batches:
        raise _no_pair(run.config)
    if run.pairs is not None:
        times = zip(run.pairs, batches.times, strict=True)
        run.report("times in an epoch: " + ", ".join(f"{pair} {x:g}" for pair, x in times))
    return batches


def validation_batches(run: Run, tokenizer: BaseTokenizer) -> Validation:
    """The validation split of the first corpus, or of each pair of languages, if there is one."""
    options, validation = run.options, Validation()
    for data, source, target in run.measured:
        name = "" if run.pairs is None else f"{source}-{target}"
        if has_split(data, source, target, "validation"):
            pairs = [_validation_pairs(run, data, source, target)]
            title, direction = f"validation {name}".strip(), [(data, source, target)]
            validation[name] = _batches(run, title, direction, pairs, tokenizer)
        elif run.pairs is not None:
            run.report(f"{name} has no validation split: it is not measured")
    names = ", ".join(dict.fromkeys(data for data, *_ in run.measured))
    needing = ["weights=best"] if options.weights == "best" else []
    needing += [n for n in ("early_stopping_patience", "bleu_freq") if getattr(options, n)]
    if needing and not validation:
        raise InputError(f"{names} has no validation split. It is needed by: {', '.join(needing)}.")
    if needing and not options.bleu_freq and not any(validation.steps.values()):
        raise InputError(
            f"{names} has no pair of at most max_length={run.config.options['max_length']} "
            f"tokens in its validation split. It is needed by: {', '.join(needing)}."
        )
    return validation


def _batches(run, name, directions, pairs, tokenizer, **options):
    limits = run.config.options["batch_tokens"], run.config.options["max_length"]
    languages = run_languages(run.config)
    if run.pairs is not None:
        sides = list(zip(*directions, strict=True))[1:]
        languages = dict(zip(languages, map(list, sides), strict=True))
    batches = Batches(pairs, tokenizer, *limits, **options, **languages)
    run.report(f"{name}: {batches.counts}")
    return batches


def run_languages(config: RunConfig) -> dict[str, str | None]:
    """The languages of a run's pairs, for a multilingual model, as arguments."""
    return {name: config.options[name] for name in ("source_language", "target_language")}


def _no_pair(config):
    return InputError(
        f"{', '.join(dict.fromkeys(config.data))} has no pair of at most "
        f"max_length={config.options['max_length']} tokens: raise max_length, or give another "
        "corpus."
    )
