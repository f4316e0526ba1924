"""Cleaning of parallel text: which pairs of a corpus break which rule."""

import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mt.data.corpus import dataset_of, raw_pairs, splits_of
from keras_mt.data.rules import RULES, key, rule_names
from keras_mt.data.text_files import CorpusError
from keras_mt.errors import InputError
from keras_mt.files import atomic_write, check_new, new_folder
from keras_mt.version import __version__

REPORT_FILE = "cleaning.json"
_PART = 20_000  # Pairs that are judged at a time, and not again when a killed cleaning is resumed.
_EXAMPLES = 2


class Cleaning:
    """Which pairs of a corpus's training split break which rule.

    The split is read as a stream, as often as it is needed; a pair takes 9 bytes of memory.

    Args:
        data, source, target: As for `load_corpus`, but lines may be blank or not UTF-8.
        rules: The rules' names, in order, as `rule_names` gives them.
        parts: A folder that keeps what was judged, so that it is not judged again; or None.
        processes: Number of processes that judge.

    Attributes:
        verdicts: uint8 [pairs], 0 for a pair that is kept, else the number of the first rule, from
            1, that drops it.
        counts: Number of pairs that each rule drops, by its name.

    Raises:
        CorpusError: If there is no such corpus, language or split, or no pair is left.

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
    ):
        self.data, self.source, self.target, self.rules = str(data), source, target, tuple(rules)
        self.verdicts, keys = self._judged(parts, processes)
        if "duplicate" in self.rules:
            kept = np.flatnonzero(self.verdicts == 0)
            first = np.unique(keys[kept], return_index=True)[1]
            self.verdicts[np.delete(kept, first)] = self.rules.index("duplicate") + 1
        counts = np.bincount(self.verdicts, minlength=len(self.rules) + 1).tolist()
        self.kept, self.counts = counts[0], dict(zip(self.rules, counts[1:], strict=True))
        if not self.kept:
            most = max(self.counts, key=self.counts.get, default=None)
            raise CorpusError(
                f"Nothing of the split train of {data} is left"
                + (f": {self}. " if len(self.verdicts) else ", which is empty. ")
                + f"Is it {source!r} and {target!r}?"
                + (f" `--without {most}` leaves that rule out." if most else "")
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
        chunks = iter(lambda: list(itertools.islice(pairs, _PART)), [])
        nothing = np.zeros(0, np.uint8), np.zeros(0, np.uint64)
        return map(np.concatenate, zip(nothing, *_mapped(judge, chunks, processes), strict=True))

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

    def report(self, examples: dict[str, list[list[str]]]) -> dict[str, Any]:
        """What a cleaning did, as JSON: `examples` are those of the rules."""
        total = len(self.verdicts)
        rules = {
            name: {
                "what": RULES[name].what,
                "dropped": count,
                "share": count / total,
                "examples": examples.get(name, []),
            }
            for name, count in self.counts.items()
        }
        about = {name: getattr(self, name) for name in ("data", "source", "target")}
        about |= {"keras_mt": __version__, "pairs": total, "kept": self.kept}
        return {**about, "rules": rules}


def clean(
    data: str | os.PathLike,
    source: str,
    target: str,
    output: str | os.PathLike,
    *,
    identify: bool = False,
    without: Sequence[str] = (),
    processes: int = 1,
    report: Callable[[str], Any] = print,
) -> Path:
    """Writes a corpus folder with the pairs of a corpus that break no rule.

    The rules, in `keras_mt.data.rules`, are conservative: they drop what is hardly ever a
    translation. A pair counts for the first rule that drops it. The training split is cleaned;
    other splits are copied as they are. `cleaning.json` in the folder has what is printed.

    A cleaning that was killed goes on where it was, if it is called again with the same arguments;
    until it is done, the folder `.NAME.parts` beside the output keeps what was judged.

    Args:
        data: As for `load_corpus`, but lines may be blank, or hold what is not UTF-8.
        source, target: Codes of the languages.
        output: The folder to write, which must not exist.
        identify: Whether to drop pairs in other languages, by py3langid: the rule `language`.
        without: Names of rules to leave out.
        processes: Number of processes.
        report: Function that is called with each line of the table.

    Returns:
        The folder's path.

    Raises:
        CorpusError: If there is no such corpus, language or split, or no pair is left.
        ValueError: If there is no such rule, or py3langid is missing or does not know a language.
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
    cleaning = Cleaning(data, source, target, rules, parts, processes)
    others = [s for s in splits_of(data, source, target, checked=False) if s != "train"]
    examples = collections.defaultdict(list)

    def kept():
        for verdict, *pair in cleaning.texts():
            if not verdict:
                yield pair
            elif len(of_rule := examples[rules[verdict - 1]]) < _EXAMPLES:
                of_rule.append(pair)

    with new_folder(output) as folder:
        _write(folder, source, target, "train", kept())
        for split in others:
            _write(
                folder, source, target, split, map(_texts, raw_pairs(data, source, target, split))
            )
        result = cleaning.report(examples)
        text = json.dumps(result, indent=2, ensure_ascii=False)
        (folder / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(parts, ignore_errors=True)
    for line in _table(result):
        report(line)
    if others:
        report(f"copied as they are: {', '.join(others)}")
    return output


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
    """The verdicts and the keys of some pairs; from a file, if there is one for the same work."""
    path = None
    if parts is not None:
        work = repr((__version__, source, target, names, pairs)).encode()
        path = parts / f"{hashlib.blake2b(work, digest_size=16).hexdigest()}.npz"
        if path.exists():
            with np.load(path) as arrays:
                return arrays["verdicts"], arrays["keys"]
    rules = list(enumerate(_rules(source, target, names), start=1))
    texts = [_texts(pair) for pair in pairs]
    dropped_by = (next((i for i, rule in rules if rule.drops(*pair)), 0) for pair in texts)
    verdicts = np.fromiter(dropped_by, np.uint8, len(texts))
    keys = np.fromiter(itertools.starmap(key, texts), np.uint64, len(texts))
    if path is not None:
        with atomic_write(path) as temporary:
            np.savez(temporary, verdicts=verdicts, keys=keys)
    return verdicts, keys


@functools.cache
def _rules(source, target, names):
    return [RULES[name](source, target) for name in names]


def _texts(pair):
    return [side.decode("utf-8", "replace").replace("\n", " ") for side in pair]


def _write(folder, source, target, split, pairs):
    """Writes the two files of a split."""
    paths = [folder / f"{language}.{split}.txt" for language in (source, target)]
    with open(paths[0], "wb") as sources, open(paths[1], "wb") as targets:
        for pair in pairs:
            for file, text in zip((sources, targets), pair, strict=True):
                file.write(text.encode() + b"\n")


def _table(result):
    yield f"{'rule':10} {'dropped':>10} {'share':>7}  what it drops, and examples"
    for name, row in result["rules"].items():
        yield f"{name:10} {row['dropped']:>10,} {row['share']:>7.2%}  {row['what']}"
        for pair in row["examples"]:
            yield " " * 31 + " | ".join(_shown(text) for text in pair)
    yield f"{'kept':10} {result['kept']:>10,} {result['kept'] / result['pairs']:>7.2%}"


def _shown(text):
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 60 else f"{text[:59]}…"
