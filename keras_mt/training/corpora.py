"""The corpora of a run: what was asked for, what one pass over them gives, and their batches."""

import itertools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.data import Batches, load_corpus
from keras_mt.data.cleaning import Cleaning
from keras_mt.data.cleaning_rules import rule_names
from keras_mt.data.corpus import dataset_of, has_split, open_corpus
from keras_mt.errors import CorpusError, InputError
from keras_mt.options import TrainingOptions
from keras_mt.options.fields import as_integer
from keras_mt.options.search import check_language
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer, Tokenizer
from keras_mt.text.tokenizer import Reservoir
from keras_mt.training.architecture import Base
from keras_mt.training.distribution import Worker
from keras_mt.training.recipe import Statistics, measure

# The maximum number of texts that a vocabulary is trained on.
_TEXTS = 1_000_000
# From fewer pairs no model learns a language.
_FEW_PAIRS = 10_000
_TEMPERATURE = 5.0  # As of M2M-100, and of Arivazhagan et al. 2019.


def requested(
    data: Any, source: Any, target: Any, pairs: Any, options: TrainingOptions
) -> RunConfig:
    """The request that `train` was given; corpora and languages that make no sense are refused."""
    if any((value is None) != (pairs is not None) for value in (data, source, target)):
        raise InputError(
            "Give `data`, `source` and `target`, or `pairs` in place of all three. "
            f"Received: {data=}, {source=}, {target=}, {pairs=}"
        )
    if pairs is None:
        data = data if isinstance(data, (list, tuple)) else [data]
        if not data:
            raise InputError(f"data must name at least one corpus. Received: {data!r}")
        request = RunConfig(list(map(str, data)), source, target, options)
    else:
        _check_pairs(pairs, options)
        pairs = {pair: str(name) for pair, name in pairs.items()}
        request = RunConfig([*pairs.values()], "mul", "mul", options, pairs)
    count = len(request.data)
    weights = options.corpus_weights or [1] * count
    if len(weights) != count or min(as_integer("corpus_weights", x) for x in weights) < 1:
        raise InputError(
            "corpus_weights must be positive integers, one for each corpus. Received: "
            f"{list(weights)} for {', '.join(request.data)}"
        )
    return request


def _check_pairs(pairs, options):
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
    for name in ("source_language", "target_language"):
        if getattr(options, name) is not None:
            raise InputError(f"{name} does not go with pairs, which name both: leave it out.")


class Corpora(NamedTuple):
    """The text of a run, which is read once to make this, and once more to be encoded."""

    training: list[tf.data.Dataset]  # Of each direction.
    validation: dict[str, tf.data.Dataset]  # By pair, as `RunConfig.validated`.
    statistics: Statistics
    samples: list[list[bytes]]  # Samples to train a tokenizer on, of all languages or of each.


def read_corpora(request: RunConfig, worker: Worker, sampled: bool) -> Corpora:
    """Checks and measures all training text; `sampled` says to keep texts for a tokenizer.

    Text in several directions counts once.
    """
    samples = _samples(request) if sampled else {}
    training, streams, known = [], [], set()
    for data, *codes in request.directions:
        pairs, dataset = _training_pairs(data, *codes, request.options.clean, worker)
        training.append(dataset)
        if (text := (data, *sorted(codes))) not in known:
            fresh = [None if (data, code) in known else samples.get(code) for code in codes]
            known |= {text, *((data, code) for code in codes)}
            streams.append(_sampled(pairs, fresh, data))
    statistics = measure(itertools.chain.from_iterable(streams))
    validation = {}
    for pair, direction in request.validated.items():
        if has_split(*direction, "validation"):
            validation[pair] = _validation_pairs(*direction, request.options.clean)
        elif pair:
            worker.report(f"{pair} has no validation split: it is not measured")
    kept = [sample.texts for sample in dict.fromkeys(samples.values())]
    return Corpora(training, validation, statistics, kept)


def _samples(request):
    """The samples of each language's texts: one for two languages, or one for each of several."""
    seed, codes = request.options.seed, request.codes
    if codes:
        return {code: Reservoir(_TEXTS // len(codes), seed) for code in codes}
    return dict.fromkeys((request.source, request.target), Reservoir(_TEXTS, seed))


def _sampled(pairs, samples, data):
    """The pairs, while samples are taken of their sides; refuses a corpus without any."""
    empty = True
    for pair in pairs:
        empty = False
        for text, sample in zip(pair, samples, strict=True):
            if sample is not None:
                sample.add(text)
        yield pair
    if empty:
        raise CorpusError(f"{data} is empty.")


def _training_pairs(data, source, target, clean, worker):
    """The training pairs of a corpus, checked, and a dataset of them, which checks no more.

    With the option `clean` they are those that break no rule.
    """
    if not clean:
        corpus = open_corpus(data, source, target)
        return corpus.pairs("train"), corpus.dataset("train")
    cleaning = Cleaning(data, source, target, rule_names())
    worker.report(f"cleaned {data}: {cleaning}")
    return cleaning.pairs(), dataset_of(cleaning.pairs)


def _validation_pairs(data, source, target, clean):
    """The validation pairs of a corpus; with the option `clean`, those that are not refused."""
    if not clean:
        return load_corpus(data, source, target, "validation")
    corpus = open_corpus(data, source, target)
    return dataset_of(lambda: corpus.usable_pairs("validation"))


def existing_tokenizer(
    folder: RunFolder, options: TrainingOptions, base: Base | None, report: Callable[[str], Any]
) -> BaseTokenizer | None:
    """The folder's tokenizer, the one that is given, or that of `init`; None for a new one."""
    given = options.tokenizer
    if isinstance(given, (str, os.PathLike)):
        of_run = Path(given).is_dir()
        given = RunFolder(given).load_tokenizer() if of_run else Tokenizer.load(given)
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
    if given is not None and options.vocab_size not in (None, given.vocab_size):
        report(
            f"vocab_size={options.vocab_size} is ignored: the tokenizer brings its own, "
            f"{given.vocab_size:,}"
        )
    return given


def new_tokenizer(config: RunConfig, samples: list[list[bytes]], worker: Worker) -> Tokenizer:
    """A tokenizer of at most `vocab_size` pieces, trained on about as much text of each sample."""
    size, seed = config.options.vocab_size, config.options.seed
    worker.report(f"training the tokenizer, at most {size:,} pieces")
    return Tokenizer.train(_evenly(samples), size, seed=seed, languages=config.codes)


def _evenly(samples):
    """The texts of all samples, about as many characters of each: those of the smaller repeat."""
    most = max(sum(map(_characters, texts)) for texts in samples)
    for texts in samples:
        left = most
        for text in itertools.cycle(texts):
            if left <= 0:
                break
            left -= _characters(text)
            yield text


def _characters(text):
    return len(text.decode("utf-8", "replace")) + 1  # And its end.


def training_batches(
    config: RunConfig, corpora: Corpora, tokenizer: BaseTokenizer, worker: Worker
) -> Batches:
    """The batches of the training pairs, which are counted."""
    options, pairs = config.options, config.pairs
    batches = Batches(
        corpora.training,
        tokenizer,
        options.batch_tokens,
        options.max_length,
        seed=options.seed,
        subword_sampling=options.subword_sampling,
        augment=options.augment,
        weights=options.corpus_weights,
        temperature=1.0 if pairs is None or options.corpus_weights else _TEMPERATURE,
        directory=worker.temporary,
        **_languages(config, config.directions, tokenizer),
    )
    worker.report(f"train: {batches.counts}")
    if options.init is None and corpora.statistics.pairs < _FEW_PAIRS:
        number = corpora.statistics.pairs
        worker.report(f"{number:,} pairs: expect a demonstration, not a translator")
    if not batches.counts.batches:
        raise InputError(
            f"{', '.join(dict.fromkeys(config.data))} has no pair of at most "
            f"max_length={options.max_length} tokens: raise max_length, or give another corpus."
        )
    if pairs is not None:
        times = zip(pairs, batches.times, strict=True)
        worker.report("times in an epoch: " + ", ".join(f"{pair} {x:g}" for pair, x in times))
    return batches


def validation_batches(
    config: RunConfig, corpora: Corpora, tokenizer: BaseTokenizer, worker: Worker
) -> Batches | None:
    """The batches of all validation splits, or None; refused where options need some."""
    options, validation = config.options, None
    if corpora.validation:
        directions = [config.validated[pair] for pair in corpora.validation]
        languages = _languages(config, directions, tokenizer)
        limits = options.batch_tokens, options.max_length
        validation = Batches([*corpora.validation.values()], tokenizer, *limits, **languages)
        worker.report(f"validation: {validation.counts}")
    needing = ["weights=best"] if options.weights == "best" else []
    needing += [n for n in ("stop_after", "bleu_freq") if getattr(options, n)]
    if needing and not (validation and (validation.counts.batches or options.bleu_freq)):
        data = ", ".join(dict.fromkeys(data for data, *_ in config.validated.values()))
        raise InputError(
            f"{data} has no validation split with pairs of at most max_length={options.max_length} "
            f"tokens. It is needed by: {', '.join(needing)}."
        )
    return validation


def _languages(config, directions, tokenizer):
    """The languages of a multilingual model's texts: one for all, or those of each direction."""
    if config.pairs is None:
        return config.languages
    if not tokenizer.languages:
        raise InputError(
            "The tokenizer has no languages, which pairs need: leave tokenizer or init out, or "
            "give those of a run for several languages."
        )
    for code in config.codes:
        check_language("pairs", code, tokenizer.languages)
    _, sources, targets = zip(*directions, strict=True)
    return {"source_language": sources, "target_language": targets}
