"""Cleaning of parallel text by rules."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mt.data.cleaning_rules import RULES, pair_hash, rule_names
from keras_mt.data.corpus import dataset_of, is_usable, raw_pairs, splits_of
from keras_mt.errors import CorpusError
from keras_mt.files import check_new, new_folder
from keras_mt.version import __version__

_EXAMPLES = 2  # Of what each rule drops, in the table.


class Cleaning:
    """The verdicts of rules on the pairs of a corpus's training split.

    The split is read as a stream, as often as it is needed; a pair takes 9 bytes of memory.

    Args:
        data, source, target: As for `clean`.
        rules: The rules' names, in order, as `rule_names` gives them.

    Attributes:
        verdicts: uint8 [pairs], 0 for a pair that is kept, else the number of the first rule, from
            1, that drops it.
        counts: Number of pairs that each rule drops, by its name.
        kept: Number of pairs that are kept.

    Raises:
        CorpusError: If there is no such corpus, language or split, or no pair is left.

    Example:

    >>> cleaning = Cleaning("phrasebook", "pt", "en", rule_names(without=["duplicate"]))
    >>> cleaning.kept, cleaning.counts["empty"]
    (18999, 0)
    """

    def __init__(self, data: str | os.PathLike, source: str, target: str, rules: Sequence[str]):
        self.data, self.source, self.target, self.rules = str(data), source, target, tuple(rules)
        judged = np.fromiter(map(self._judged, self._pairs()), "u1,u8")
        self.verdicts, hashes = judged["f0"].copy(), judged["f1"]
        if "duplicate" in self.rules:
            kept = np.flatnonzero(self.verdicts == 0)
            first = np.unique(hashes[kept], return_index=True)[1]
            self.verdicts[np.delete(kept, first)] = self.rules.index("duplicate") + 1
        counts = np.bincount(self.verdicts, minlength=len(self.rules) + 1).tolist()
        self.kept, self.counts = counts[0], dict(zip(self.rules, counts[1:], strict=True))
        if not self.kept:
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

    def _pairs(self):
        return map(_texts, raw_pairs(self.data, self.source, self.target, "train"))

    def _judged(self, pair):
        """The verdict of all rules but `duplicate`, and the pair's hash."""
        dropping = (
            number
            for number, name in enumerate(self.rules, start=1)
            if RULES[name].drops(*pair, self.source, self.target)
        )
        return next(dropping, 0), pair_hash(*pair)

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """The pairs in order, each with its verdict; line breaks within a text become spaces."""
        for verdict, pair in zip(self.verdicts, self._pairs(), strict=True):
            yield verdict, *pair

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """The pairs that are kept."""
        return ((a.encode(), b.encode()) for verdict, a, b in self.texts() if not verdict)

    def dataset(self) -> tf.data.Dataset:
        """The pairs that are kept, as `load_corpus` returns them."""
        return dataset_of(self.pairs)


def clean(
    data: str | os.PathLike,
    source: str,
    target: str,
    output: str | os.PathLike,
    *,
    identify: bool = False,
    without: Sequence[str] = (),
    report: Callable[[str], Any] = print,
) -> Path:
    """Writes a corpus folder with the pairs of a corpus that break no rule.

    The rules, in `keras_mt.data.cleaning_rules`, drop only what is very unlikely to be a
    translation. A pair counts for the first rule that drops it. The training split is cleaned;
    other splits are copied, without pairs that have a blank side or are not UTF-8, which no command
    takes. `cleaning.json` in the folder has the table that is printed.

    Args:
        data: As for `load_corpus`, but lines may be blank, or hold what is not UTF-8.
        source, target: Codes of the languages.
        output: The folder to write, which must not exist.
        identify: Whether to drop pairs in other languages, by py3langid: the rule `language`.
        without: Names of rules to leave out.
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
    cleaning = Cleaning(data, source, target, rule_names(identify, without))
    examples = {name: [] for name in cleaning.rules}

    def kept():
        for verdict, *pair in cleaning.texts():
            if not verdict:
                yield pair
            elif len(shown := examples[cleaning.rules[verdict - 1]]) < _EXAMPLES:
                shown.append(pair)

    with new_folder(output) as folder:
        _write(folder, source, target, "train", kept())
        others = [split for split in splits_of(data, source, target) if split != "train"]
        copied = [_copy_split(data, source, target, split, folder) for split in others]
        results = _results(cleaning, examples)
        text = json.dumps(results, indent=2, ensure_ascii=False)
        (folder / "cleaning.json").write_text(text + "\n", encoding="utf-8")
    for line in [*_table(results), *copied]:
        report(line)
    return Path(output)


def _results(cleaning, examples):
    """The content of `cleaning.json`: counts, and examples of what each rule drops."""
    pairs = len(cleaning.verdicts)
    rules = {
        name: {
            "description": RULES[name].description,
            "dropped": count,
            "share": count / pairs,
            "examples": examples[name],
        }
        for name, count in cleaning.counts.items()
    }
    corpus = {"data": cleaning.data, "source": cleaning.source, "target": cleaning.target}
    return corpus | {
        "keras_mt": __version__,
        "pairs": pairs,
        "kept": cleaning.kept,
        "rules": rules,
    }


def _table(results):
    """The lines that show results."""
    yield f"{'rule':10} {'dropped':>10} {'share':>7}  what it drops, and examples"
    for name, row in results["rules"].items():
        yield f"{name:10} {row['dropped']:>10,} {row['share']:>7.2%}  {row['description']}"
        for texts in row["examples"]:
            yield " " * 31 + " | ".join(map(_shortened, texts))
    kept = results["kept"]
    yield f"{'kept':10} {kept:>10,} {kept / results['pairs']:>7.2%}"


def _shortened(text):
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _copy_split(data, source, target, split, folder):
    """Copies the pairs that `load_corpus` takes, and returns a line that says so."""
    left_out = 0

    def usable():
        nonlocal left_out
        for pair in raw_pairs(data, source, target, split):
            if is_usable(pair):
                yield _texts(pair)
            else:
                left_out += 1

    _write(folder, source, target, split, usable())
    without = f", without {left_out:,} pairs that are blank or not UTF-8" if left_out else ""
    return f"copied: {split}{without}"


def _texts(pair):
    return [side.decode("utf-8", "replace").replace("\n", " ") for side in pair]


def _write(folder, source, target, split, pairs):
    """Writes pairs of texts to the two files of a split."""
    paths = [folder / f"{language}.{split}.txt" for language in (source, target)]
    with open(paths[0], "wb") as sources, open(paths[1], "wb") as targets:
        for source_text, target_text in pairs:
            sources.write(source_text.encode() + b"\n")
            targets.write(target_text.encode() + b"\n")
