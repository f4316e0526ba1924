"""Cleaning of parallel text: which pairs of a corpus break which rule."""

import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_mt.data.corpus import dataset_of, in_chunks, is_whole, raw_pairs, splits_of
from keras_mt.data.dropped import Dropped
from keras_mt.data.rules import RULES, key, rule_names
from keras_mt.errors import CorpusError, InputError
from keras_mt.files import atomic_write, check_new, new_folder
from keras_mt.version import __version__

SCORE = "score"  # The rule that a translator judges by, after all others.
MIN_GAIN = 0.25
# Pairs that are judged at a time, or scored, and not again when a killed cleaning is resumed.
_PART, _SCORED = 20_000, 2_000


class Cleaning:
    """Which pairs of a corpus's training split break which rule.

    The split is read as a stream, as often as it is needed; a pair takes 9 bytes of memory.

    Args:
        data, source, target, processes, translator, min_gain: As for `clean`.
        rules: The rules' names, in order, as `rule_names` gives them.
        parts: A folder that keeps what was judged, so that it is not judged again; or None.

    Attributes:
        verdicts: uint8 [pairs], 0 for a pair that is kept, else the number of the first rule, from
            1, that drops it.
        counts: Number of pairs that each rule drops, by its name.
        least_gain: The least gain of a pair that `score` keeps.

    Raises:
        CorpusError: If there is no such corpus, language or split, or no pair is left.
        ValueError: If `min_gain` is not from 0 to 1, or the translator does not fit the corpus.

    Example:

    >>> cleaning = Cleaning("phrasebook", "pt", "en", rule_names(without=["duplicate"]))
    >>> cleaning.kept, cleaning.counts["empty"]
    (18999, 0)
    """

    def __init__(
        self,
        data: str | os.PathLike,
        source: str,
        target: str,
        rules: Sequence[str],
        parts: Path | None = None,
        processes: int = 1,
        translator: Any = None,
        min_gain: float = MIN_GAIN,
    ):
        if not 0 <= min_gain <= 1:
            raise InputError(f"min_gain must be from 0 to 1. Received: min_gain={min_gain}")
        self.data, self.source, self.target, self.rules = str(data), source, target, tuple(rules)
        self.min_gain, self.least_gain = min_gain, None
        self.verdicts, keys = self._judged(parts, processes)
        if "duplicate" in self.rules:
            kept = np.flatnonzero(self.verdicts == 0)
            first = np.unique(keys[kept], return_index=True)[1]
            self.verdicts[np.delete(kept, first)] = self.rules.index("duplicate") + 1
        if translator is not None:
            self.rules = *self.rules, SCORE
            kept, gains = np.flatnonzero(self.verdicts == 0), self._gains(translator, parts)
            self.least_gain = self._least_gain(gains)
            self.verdicts[kept[gains < self.least_gain]] = len(self.rules)
        counts = np.bincount(self.verdicts, minlength=len(self.rules) + 1).tolist()
        self.kept, self.counts = counts[0], dict(zip(self.rules, counts[1:], strict=True))
        if not self.kept:
            if parts is not None:  # Of no use under other rules.
                shutil.rmtree(parts, ignore_errors=True)
            most = max(self.counts, key=self.counts.get, default=None)
            raise CorpusError(
                f"Nothing of the split train of {data} is left"
                + (f": {self}. " if len(self.verdicts) else ", which is empty. ")
                + f"Is it {source!r} and {target!r}?"
                + (f" `keras-mt clean --without {most}` leaves that rule out." if most else "")
            )

    def __str__(self) -> str:
        dropped = [f"{count:,} {name}" for name, count in self.counts.items() if count]
        return (
            f"{self.kept:,} of {len(self.verdicts):,} pairs kept; dropped: "
            f"{', '.join(dropped) or 'none'}"
        )

    def _judged(self, parts, processes):
        """The verdicts of all rules but `duplicate`, and the keys of the pairs."""
        judge = functools.partial(_judge, self.source, self.target, self.rules, parts)
        pairs = raw_pairs(self.data, self.source, self.target, "train")
        nothing = np.zeros(0, np.uint8), np.zeros(0, np.uint64)
        judged = _mapped(judge, in_chunks(pairs, _PART), processes)
        return map(np.concatenate, zip(nothing, *judged, strict=True))

    def _gains(self, translator, parts):
        """The gain of each pair that is kept so far; NaN where the translator refuses it."""
        pairs = ([a, b] for verdict, a, b in self.texts() if not verdict)
        gains, fingerprint = [np.zeros(0, np.float32)], translator.fingerprint
        with tqdm(total=int(np.sum(self.verdicts == 0)), unit=" pairs", disable=None) as progress:
            for chunk in in_chunks(pairs, _SCORED):
                found = remembered(parts, (fingerprint, chunk), _scored, translator, chunk)
                gains.append(found["gains"])
                progress.update(len(chunk))
        return np.concatenate(gains)

    def _least_gain(self, gains):
        known = gains[~np.isnan(gains)]
        median = float(np.median(known)) if known.size else 0.0
        if known.size and median <= 0:
            raise InputError(
                f"The model finds half of the targets of {self.data} no more probable with their "
                f"own sources than with others: give one that translates from {self.source!r} to "
                f"{self.target!r}, and learned it from text like this."
            )
        return self.min_gain * median

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """The pairs in order, each with its verdict; line breaks within a text become spaces."""
        pairs = raw_pairs(self.data, self.source, self.target, "train")
        for verdict, pair in zip(self.verdicts, pairs, strict=True):
            yield verdict, *_texts(pair)

    def dataset(self) -> tf.data.Dataset:
        """The pairs that are kept, as `load_corpus` returns them."""
        return dataset_of(
            lambda: ((a.encode(), b.encode()) for verdict, a, b in self.texts() if not verdict)
        )

    @property
    def whats(self) -> dict[str, str]:
        """What each rule drops, in a line, by its name."""
        score = (
            "its source, in place of another's, gains the target's log-probability less than "
            f"{self.least_gain or 0:.2f} a token, {self.min_gain} times the median"
        )
        return {name: score if name == SCORE else RULES[name].what for name in self.rules}


def clean(
    data: str | os.PathLike,
    source: str,
    target: str,
    output: str | os.PathLike,
    *,
    identify: bool = False,
    without: Sequence[str] = (),
    processes: int = 1,
    translator: Any = None,
    min_gain: float = MIN_GAIN,
    report: Callable[[str], Any] = print,
) -> Path:
    """Writes a corpus folder with the pairs of a corpus that break no rule.

    The rules, in `keras_mt.data.rules`, are conservative: they drop what is hardly ever a
    translation. A pair counts for the first rule that drops it. The training split is cleaned;
    other splits are copied, without pairs that have a blank side or are not UTF-8, which no command
    takes. `cleaning.json` in the folder has the table that is printed.

    A cleaning that was killed goes on where it was, if it is called again with the same arguments;
    until it is done, the folder `.NAME.parts` beside the output keeps what was judged.

    Args:
        data: As for `load_corpus`, but lines may be blank, or hold what is not UTF-8.
        source, target: Codes of the languages.
        output: The folder to write, which must not exist.
        identify: Whether to drop pairs in other languages, by py3langid: the rule `language`.
        without: Names of rules to leave out.
        processes: Number of processes.
        translator: A `Translator` from source to target, which adds the rule `score`: a pair's
            gain is the mean log-probability of the target's tokens with its own source, less that
            with the source of another pair. It is near 0 if source and target have nothing to do
            with each other, however common or rare the target's words are.
        min_gain: The least gain, a share of the median gain, from 0 to 1.
        report: Function that is called with each line of the table.

    Returns:
        The folder's path.

    Raises:
        CorpusError: If there is no such corpus, language or split, or no pair is left.
        ValueError: If there is no such rule; if py3langid is missing or does not know a language;
            or if `min_gain` is not from 0 to 1, or the translator does not fit the corpus.
        FileExistsError: If the output exists.

    Example:

    >>> clean("my_corpus", "en", "de", "my_corpus_cleaned")  # doctest: +SKIP
    """
    check_new(output)
    output = Path(output).resolve()
    if processes < 1:
        raise InputError(f"processes must be at least 1. Received: processes={processes}")
    parts = output.parent / f".{output.name}.parts"
    rules = rule_names(identify, without)
    cleaning = Cleaning(data, source, target, rules, parts, processes, translator, min_gain)
    dropped = Dropped(cleaning.whats)
    others = [s for s in splits_of(data, source, target) if s != "train"]
    with new_folder(output) as folder:
        with writer(folder, source, target, "train") as write:
            for verdict, *pair in cleaning.texts():
                if verdict:
                    dropped.add(cleaning.rules[verdict - 1], *pair)
                else:
                    write(*pair)
        copied = [_copy_split(data, source, target, split, folder) for split in others]
        corpus = {"data": str(data), "source": source, "target": target}
        lines = dropped.write(folder, len(cleaning.verdicts), **corpus)
    shutil.rmtree(parts, ignore_errors=True)
    for line in [*lines, *copied]:
        report(line)
    return output


def _copy_split(data, source, target, split, folder):
    """Copies the pairs that `load_corpus` takes, and returns a line that says so."""
    refused = 0
    with writer(folder, source, target, split) as write:
        for pair in raw_pairs(data, source, target, split):
            if is_whole(pair):
                write(*_texts(pair))
            else:
                refused += 1
    without = f", without {refused:,} pairs that are blank or not UTF-8" if refused else ""
    return f"copied: {split}{without}"


def _mapped(function, chunks, processes):
    """The function's results in order, with few chunks in memory."""
    if processes == 1:
        yield from map(function, chunks)
        return
    context = multiprocessing.get_context("spawn")  # TensorFlow has threads.
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        waiting = collections.deque()
        for chunk in chunks:
            waiting.append(pool.submit(function, chunk))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _judge(source, target, names, parts, pairs):
    """The verdicts and the keys of some pairs."""
    work = source, target, names, pairs
    found = remembered(parts, work, _verdicts, *work)
    return found["verdicts"], found["keys"]


def _verdicts(source, target, names, pairs):
    rules = list(enumerate(_rules(source, target, names), start=1))
    texts = [_texts(pair) for pair in pairs]
    dropped_by = (next((i for i, rule in rules if rule.drops(*pair)), 0) for pair in texts)
    verdicts = np.fromiter(dropped_by, np.uint8, len(texts))
    keys = np.fromiter(itertools.starmap(key, texts), np.uint64, len(texts))
    return {"verdicts": verdicts, "keys": keys}


def _scored(translator, pairs):
    """What the mean log-probability of each target's tokens gains by its own source."""
    if len(pairs) == 1:  # There is no other source.
        return {"gains": np.full(1, np.nan, np.float32)}
    sources, targets = map(list, zip(*pairs, strict=True))
    half = len(sources) // 2
    own, other = (
        np.array([s.log_prob / len(s.tokens) if s else np.nan for s in scores], np.float32)
        for scores in (
            translator.score(sources, targets),
            translator.score(sources[half:] + sources[:half], targets),
        )
    )
    return {"gains": own - other}


def remembered(
    parts: Path | None, work: Any, compute: Callable[..., dict[str, np.ndarray]], *arguments: Any
) -> dict[str, np.ndarray]:
    """What `compute(*arguments)` returns, from a file of `parts` if that has the same work's.

    The `repr` of `work` says all that the result depends on, beside the version of keras_mt.
    """
    if parts is None:
        return compute(*arguments)
    digest = hashlib.blake2b(repr((__version__, work)).encode(), digest_size=16)
    path = parts / f"{digest.hexdigest()}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return dict(arrays)
    found = compute(*arguments)
    with atomic_write(path) as temporary:
        np.savez(temporary, **found)
    return found


@functools.cache
def _rules(source, target, names):
    return [RULES[name](source, target) for name in names]


def _texts(pair):
    return [side.decode("utf-8", "replace").replace("\n", " ") for side in pair]


@contextlib.contextmanager
def writer(
    folder: Path, source: str, target: str, split: str
) -> Iterator[Callable[[str, str], None]]:
    """A context manager for a function that writes a pair to the two files of a split."""
    paths = [folder / f"{language}.{split}.txt" for language in (source, target)]
    with open(paths[0], "wb") as sources, open(paths[1], "wb") as targets:

        def write(source, target):
            sources.write(source.encode() + b"\n")
            targets.write(target.encode() + b"\n")

        yield write
