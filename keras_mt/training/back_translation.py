"""Back-translation: a parallel corpus made of text in the target's language alone."""

import collections
import hashlib
import itertools
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from keras_mt.data import CorpusError
from keras_mt.data.cleaning import writer
from keras_mt.data.corpus import in_chunks, lines, raw_pairs, splits_of
from keras_mt.data.dropped import Dropped
from keras_mt.data.rules import RULES, key, rule_names
from keras_mt.files import atomic_write, check_new, new_folder
from keras_mt.translation.base import BaseTranslator
from keras_mt.version import __version__

_PART = 2_048  # Lines that are translated at a time, and not again when a killed run is resumed.
_SAMPLE = 10_000  # The pairs and lines that languages are told by.
_MOST_SHARED = 0.1  # The largest part of a test set that a file may hold.


def back_translate(
    translator: BaseTranslator,
    files: Sequence[str | os.PathLike],
    data: str | os.PathLike,
    source: str,
    target: str,
    output: str | os.PathLike,
    *,
    identify: bool = False,
    without: Sequence[str] = (),
    min_score: float | None = None,
    report: Callable[[str], Any] = print,
) -> Path:
    """Writes a corpus folder of text in the target's language and its translations as sources.

    The rules of `clean` are applied to the lines before they are translated, and to the pairs. No
    line is translated twice, or is one of a split of `data` other than `train`. `cleaning.json` in
    the folder has what is printed.

    What was killed goes on where it was, if it is called again with the same arguments; until it is
    done, the folder `.NAME.parts` beside the output keeps the translations.

    Args:
        translator: A `Translator` or an `ExportedTranslator` from the target's language into the
            source's: the other way round.
        files: Text files, a sentence a line, which may be compressed.
        data: The parallel corpus that the result will be trained with, as for `load_corpus`.
        source, target: Codes of the languages, as for that training.
        output: The folder to write, which must not exist.
        identify, without: As for `clean`.
        min_score: The least score of a translation, by length penalty 1 the mean log-probability of
            its tokens; None for any.
        report: Function that is called with each line of the table.

    Returns:
        The folder's path.

    Raises:
        CorpusError: If a file holds more than a tenth of the test or validation split; if files or
            translations are in the other language; if there is no such corpus or language; or if
            nothing is left.
        ValueError: If there is no such rule, or py3langid is missing or does not know a language.
        FileNotFoundError: If there is no such file.
        FileExistsError: If the output exists.

    Reference:
        Sennrich et al. 2016, Improving Neural Machine Translation Models with Monolingual Data
        (https://arxiv.org/abs/1511.06709).

    Example:

    >>> translator = Translator.load("runs/de_en")  # doctest: +SKIP
    >>> back_translate(translator, ["de.txt.gz"], "my_corpus", "en", "de", "back")  # doctest: +SKIP
    """
    check_new(output)
    output = Path(output).resolve()
    parts = output.parent / f".{output.name}.parts"
    names = rule_names(identify, without)
    whats = _whats(names, data, min_score)
    dropped = Dropped(whats)
    of_pairs = [(name, RULES[name](source, target)) for name in names]
    of_lines = [(name, RULES[name](target, target)) for name, _ in of_pairs if name != "copy"]
    words = _Words(data, source, target)
    for file in files:
        words.check_language(str(file), itertools.islice(_texts([file]), _SAMPLE), target)
    marks = {n: x for n, x in _marks(files, data, source, target).items() if n in whats}

    def chosen():
        for text, *marked in zip(_texts(files), *marks.values(), strict=True):
            rule = _broken(of_lines, text, text) or next(itertools.compress(marks, marked), None)
            if rule is None:
                yield text
            else:
                dropped.add(rule, text)

    def translated():
        total = int(np.sum(~np.any([*marks.values()], axis=0)))
        for number, part in enumerate(_translations(translator, chosen(), total, parts)):
            if not number:
                what = f"What the model, from {target!r} to {source!r}, writes"
                words.check_language(what, [text for text, *_ in part], source)
            yield from part

    with new_folder(output) as folder:
        with writer(folder, source, target, "train") as write:
            for *pair, score in translated():
                rule = "refused" if math.isnan(score) else _broken(of_pairs, *pair)
                if rule is None and min_score is not None and score < min_score:
                    rule = "score"
                if rule is None:
                    write(*pair)
                else:
                    dropped.add(rule, *pair)
        total = len(marks["held_out"])
        if sum(dropped.counts.values()) == total:
            given = ", ".join(map(str, files))
            reasons = ", ".join(f"{n:,} {name}" for name, n in dropped.counts.items() if n)
            raise CorpusError(f"Nothing of {given} is left; dropped: {reasons or 'nothing'}.")
        inputs = {"files": [*map(str, files)], "data": str(data)}
        table = dropped.write(folder, total, **inputs, source=source, target=target)
    shutil.rmtree(parts, ignore_errors=True)
    for line in table:
        report(line)
    return output


def _whats(rules, data, min_score):
    """What each reason to drop a line or a pair is, by its name."""
    whats = {name: RULES[name].what for name in rules}
    whats["held_out"] = f"it is in a split of {data} other than train"
    whats["refused"] = "the model refuses it, or finds no translation"
    if min_score is not None:
        whats["score"] = f"the translation's score is below {min_score}"
    return whats


class _Words:
    """The words that a corpus has on one side alone, which tell its languages."""

    def __init__(self, data: Any, source: str, target: str):
        self._data, sides = data, (set(), set())
        for pair in itertools.islice(raw_pairs(data, source, target, "train"), _SAMPLE):
            for side, text in zip(sides, pair, strict=True):
                side.update(_words(text.decode("utf-8", "replace")))
        self._sides = {source: sides[0] - sides[1], target: sides[1] - sides[0]}

    def check_language(self, name, texts, language):
        """Raises CorpusError if the texts have more words of the other language."""
        counts = collections.Counter(itertools.chain.from_iterable(map(_words, texts)))
        found = {
            code: sum(n for word, n in counts.items() if word in side)
            for code, side in self._sides.items()
        }
        other = max(found, key=found.get)
        if found[other] > found[language]:
            raise CorpusError(
                f"{name} must be in {language!r}, but is in {other!r}, going by the words of "
                f"{self._data}."
            )


def _words(text):
    return re.findall(r"\w+", text.casefold())


def _marks(files, data, source, target):
    """Which lines are held out, and which repeat an earlier one: Boolean arrays.

    A file that holds much of a split that is held out is refused.
    """
    keys = [_keys(_texts([file])) for file in files]
    held_out = [np.zeros(0, np.uint64)]
    for split in splits_of(data, source, target):
        if split == "train":
            continue
        pairs = raw_pairs(data, source, target, split)
        held_out.append(np.unique(_keys(pair[1].decode("utf-8", "replace") for pair in pairs)))
        for file, of_file in zip(files, keys, strict=True):
            count = int(np.isin(held_out[-1], of_file).sum())
            if count > _MOST_SHARED * len(held_out[-1]):
                raise CorpusError(
                    f"{file} holds {count:,} of the {len(held_out[-1]):,} sentences of the split "
                    f"{split} of {data}, which could not measure what is trained on them: give "
                    "other text."
                )
    keys = np.concatenate(keys)
    repeated = np.ones(len(keys), bool)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return {"held_out": np.isin(keys, np.concatenate(held_out)), "duplicate": repeated}


def _keys(texts):
    return np.fromiter((key("", text) for text in texts), np.uint64)


def _texts(files):
    for file in files:
        for line in lines(file, checked=False):
            yield line.decode("utf-8", "replace")


def _broken(rules, *pair):
    """The name of the first rule that drops a pair, or None."""
    return next((name for name, rule in rules if rule.drops(*pair)), None)


def _translations(translator, texts, total, parts):
    """Lists of translations, with their texts and scores, part by part."""
    fingerprint = translator.fingerprint
    with tqdm(total=total, unit=" lines", disable=None) as progress:
        for part in in_chunks(texts, _PART):
            found = _remembered(parts, (fingerprint, part), _translated, translator, part)
            sources = found["texts"].tobytes().decode().split("\n")
            yield list(zip(sources, part, found["scores"].tolist(), strict=True))
            progress.update(len(part))


def _translated(translator, texts):
    """The best translations, bytes in lines, and their scores; NaN for a line without any."""
    best = [found[0] if found else None for found in translator.hypotheses(texts)]
    written = "\n".join(" ".join(each.text.split()) if each else "" for each in best)
    scores = [each.score if each else np.nan for each in best]
    return {
        "texts": np.frombuffer(written.encode(), np.uint8),
        "scores": np.array(scores, np.float32),
    }


def _remembered(
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
