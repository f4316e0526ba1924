"""Exports for LiteRT, run by its interpreter: texts to translations, without TensorFlow.

It does text by text what `keras_mt.inference.graph` does inside a graph, and is held to it.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from keras_mt.errors import DIVERGED, LINE_TOO_LONG, InputError
from keras_mt.files import LITERT_MODEL
from keras_mt.options import LOOPS, NO_HYPOTHESIS, TranslationOptions
from keras_mt.text.plain import PlainTokenizer
from keras_mt.translation.batches import usable_cores
from keras_mt.translation.results import MEASURES
from keras_mt.translation.segments import Pair, Segmenter, block_diagonal, joined

# The maximum number of rows that run together; and the least length of one, as a share of the
# longest, since padding costs as much as tokens do.
_ROWS, _LEAST_LENGTH = 8, 0.75
# The maximum number of logits of given targets, all of which are held at once.
_TARGET_LOGITS = 2**24


class LiteRTModel:
    """The functions of an export for LiteRT, by the names of a SavedModel's signatures.

    `inputs` are the names of columns, by function. `outputs` say what an export gives, in a
    SavedModel's names; `run` gives more, and as `log_probs` those of tokens.
    """

    def __init__(self, folder: Path, card: Mapping[str, Any], options: TranslationOptions):
        try:
            (folder / LITERT_MODEL).stat()
            self._tokenizer = PlainTokenizer.load(folder)
        except FileNotFoundError as error:
            raise InputError(f"There is no {error.filename}: put it back.") from None
        settings = card["options"]
        if self._tokenizer.fingerprint != card["tokenizer"]["sha256"]:
            raise InputError(
                f"The tokenizer in {folder} is not that of its {LITERT_MODEL}: put back the files "
                "that the export wrote."
            )
        self._options = options
        self._segmenter = Segmenter(
            self._tokenizer, settings["limit"], options.split_sentences, settings["reads_terms"]
        )
        self._nothing_found = options.nothing_found(settings["shortlist"]).encode()
        limit = min(self._segmenter.source_limit, self._segmenter.target_limit)
        self._line_too_long = LINE_TOO_LONG.format(limit).encode()
        self._target_tokens = _TARGET_LOGITS // self._tokenizer.target_vocab_size
        self._interpreters = _Interpreters(
            folder / LITERT_MODEL, settings["rows"] or _ROWS, self._tokenizer.padding_id
        )
        languages = ("source_language", "target_language") if self._tokenizer.languages else ()
        pair, found = ("text", "target", *languages), ("translations", "scores")
        self.inputs = {"serving_default": ("text", *languages), "score": pair, "align": pair}
        self.outputs = {"serving_default": found, "confidence": (*found, *MEASURES)}
        self.outputs["score"] = "tokens", "token_log_probs", "lengths"
        if "attention" in self._interpreters.signatures["score"]["outputs"]:
            self.outputs["align"] = *found, "attention"

    def run(
        self, name: str, confidence: bool = False, **columns: Sequence[bytes]
    ) -> dict[str, list[Any]]:
        """The outputs of a function for columns of UTF-8, by the names of its inputs.

        Each is a list with an entry for each text, which has one for each hypothesis there is.
        """
        columns = {key: [text.decode() for text in texts] for key, texts in columns.items()}
        texts = columns["text"]
        targets = columns.get("target", [""] * len(texts))
        languages = [columns[name] for name in self.inputs["serving_default"][1:]]
        codes = list(zip(*languages, strict=True)) or [()] * len(texts)
        rows = list(zip(texts, targets, codes, strict=True))
        if name == "score":
            answers = self._score(rows)
        else:
            answers = self._translate(rows, name == "align", confidence)
        return {key: [answer[key] for answer in answers] for key in answers[0]}

    def _translate(self, rows, aligns, confidence):
        """The translations of rows' texts; with attention, given targets are in their place."""
        cuts, segments = [], []
        for text, target, codes in rows:
            cuts.append(self._segmenter.segments("" if target else text))
            segments += [(segment, codes) for segment in cuts[-1][0]]
        self._search(segments)
        found = [joined(*each, self._options.length_penalty) for each in cuts]
        answers = [
            {
                "translations": [target.encode() or each.text for each in several],
                "scores": [each.score for each in several],
                "refused": b"" if several else self._nothing_found,
            }
            for several, (_, target, _) in zip(found, rows, strict=True)
        ]
        if confidence:
            self._add_confidence(answers, found)
        if aligns:
            self._add_attention(answers, found, rows)
        return answers

    def _search(self, segments):
        """Sets the translations of segments, which have the codes of their languages."""
        forced, searched, rows = self._segmenter.forced, [], []
        for segment, codes in segments:
            if not segment.pieces:  # The translation of nothing is nothing.
                segment.found.append(Pair(self._tokenizer.source_ids([], *codes), [], 0))
                continue
            row = {"source": self._tokenizer.source_ids(segment.pieces, *codes)}
            row["lengths"] = len(segment.pieces)
            if forced:
                row["prefix"] = self._tokenizer.forced_ids(*codes[1:])
            searched.append(segment)
            rows.append(row)
        for segment, row, outputs in zip(
            searched, rows, self._interpreters.run("translate", rows), strict=True
        ):
            for k, score in enumerate(outputs["scores"].tolist()):
                if score > NO_HYPOTHESIS:
                    ids = outputs["tokens"][k, : outputs["lengths"][k]].tolist()
                    text = self._tokenizer.text(ids)
                    segment.found.append(Pair(row["source"], ids, forced, text, score))

    def _add_confidence(self, answers, found):
        """Adds measures of confidence in translations; see `keras_mt.inference.confidence`."""
        self._read([pair for several in found for each in several for _, pair in each.parts])
        for answer, several in zip(answers, found, strict=True):
            measured = [self._measures(each.parts) for each in several]
            answer |= {name: [measures[name] for measures in measured] for name in MEASURES}

    def _measures(self, parts):
        own = [each for _, pair in parts for each in zip(pair.log_probs, pair.tokens, strict=True)]
        worst, token = min(own, key=lambda each: each[0], default=(0.0, None))
        loops = differ = False
        for segment, pair in parts:
            words = [id for id in pair.tokens if id != self._tokenizer.eos_id]
            less, more = sorted([len(segment.pieces), len(words)])
            loops |= _repeats(words) and not _repeats(segment.pieces)
            differ |= more > 2 * less + 5 and bool(pair.tokens)
        return {
            "mean_log_probs": sum(x for x, _ in own) / max(len(own), 1),
            "worst_log_probs": worst,
            "worst_tokens": b"" if token is None else self._tokenizer.id_to_string(token),
            "loops": loops,
            "length_mismatch": differ,
        }

    def _add_attention(self, answers, found, rows):
        """Adds the tokens of translations and texts, and the attention of the former."""
        every = []
        for answer, several, (text, target, codes) in zip(answers, found, rows, strict=True):
            if target:
                given = self._pairs(text, target, codes)
                answer["refused"] = b"" if given else self._line_too_long
                every.append([given] if given else [])
            else:
                every.append([self._own_pairs(each.parts, codes) for each in several])
        self._read([pair for several in every for pairs in several for pair in pairs])
        for answer, several in zip(answers, every, strict=True):
            sources = [[id for pair in pairs for id in pair.source] for pairs in several]
            targets = [[id for pair in pairs for id in pair.tokens] for pairs in several]
            as_source, as_target = self._tokenizer.source_id_to_string, self._tokenizer.id_to_string
            answer |= {
                "attention": [block_diagonal([x.attention for x in pairs]) for pairs in several],
                "source_tokens": [list(map(as_source, ids)) for ids in sources],
                "source_lengths": list(map(len, sources)),
                "target_tokens": [list(map(as_target, ids)) for ids in targets],
                "target_lengths": list(map(len, targets)),
            }

    def _score(self, rows):
        """The log-probabilities of the tokens of rows' targets."""
        every, answers = [self._pairs(*row) for row in rows], []
        self._read([pair for pairs in every for pair in pairs])
        for pairs in every:
            log_probs = [x for pair in pairs for x in pair.log_probs]
            tokens = [self._tokenizer.id_to_string(id) for pair in pairs for id in pair.tokens]
            answer = {"tokens": tokens, "log_probs": log_probs, "lengths": len(tokens)}
            answer["refused"] = b"" if np.isfinite(log_probs).all() else DIVERGED.encode()
            answers.append(answer if pairs else {**answer, "refused": self._line_too_long})
        return answers

    def _pairs(self, text, target, codes):
        """The lines or sentences of a text and a given target; none if one is too long."""
        return [self._pair(*both, codes) for both in self._segmenter.pairs(text, target)]

    def _own_pairs(self, parts, codes):
        """The segments of a text and their translations, as if these were given."""
        limit, pieces = self._segmenter.target_limit, self._tokenizer.target_pieces
        return [
            self._pair(segment.pieces, pieces(pair.text.decode())[:limit], codes)
            for segment, pair in parts
        ]

    def _pair(self, pieces, target, codes):
        """A pair of the pieces of both sides."""
        source = self._tokenizer.source_ids(pieces, *codes)
        return Pair(source, self._tokenizer.target_ids(target, *codes[1:]), self._segmenter.forced)

    def _read(self, pairs):
        """Sets the log-probabilities and the attention of pairs; nothing has none."""
        pairs = [pair for pair in pairs if pair.target]
        rows = [{"source": pair.source, "target": pair.target} for pair in pairs]
        outputs = self._interpreters.run("score", rows, self._target_tokens)
        for pair, found in zip(pairs, outputs, strict=True):
            own = slice(pair.forced, len(pair.target))
            pair.log_probs = found["log_probs"][own].tolist()
            if "attention" in found:
                pair.attention = found["attention"][own, : len(pair.source)]


def _repeats(ids):
    """True where a sequence of ids repeats; see `keras_mt.inference.confidence.repeats`."""
    ids = np.array(ids)
    for period, again in LOOPS.items():
        same = np.cumsum(np.append(0, ids[period:] == ids[:-period]))
        if (same[again:] - same[:-again] == again).any():
            return True
    return False


class _Interpreters:
    """Interpreters of a file, one for each thread, since each has memory of its own."""

    def __init__(self, path: Path, rows: int, padding_id: int):
        self._path, self._rows, self._padding_id = path, rows, padding_id
        self._free, self._slots = [self._load()], threading.BoundedSemaphore(usable_cores())
        self.signatures = self._free[0].get_signature_list()
        if not {"translate", "score"} <= self.signatures.keys():
            raise InputError(f"{path} is of another version of keras_mt: export the run again.")

    def _load(self):
        try:
            interpreter = Interpreter(str(self._path), num_threads=1)
            interpreter.allocate_tensors()  # Its weights are packed now, and not by the first text.
            return interpreter
        except (ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{self._path} cannot be read: update ai-edge-litert, or export the run again. "
                f"({reason})"
            ) from None

    def run(
        self, name: str, rows: Sequence[Mapping[str, Any]], max_tokens: float = math.inf
    ) -> list[dict[str, np.ndarray]]:
        """The outputs of a signature for rows of ids, by the names of inputs.

        A batch of rows of similar length has at most so many tokens, padding included.
        """
        lengths = [max(map(np.size, row.values())) for row in rows]
        outputs = [{}] * len(rows)
        for batch in _batches(lengths, self._rows, max_tokens):
            columns = {key: [rows[i][key] for i in batch] for key in rows[0]}
            found = self._invoke(name, {key: self._padded(x) for key, x in columns.items()})
            for place, i in enumerate(batch):
                outputs[i] = {key: array[place] for key, array in found.items()}
        return outputs

    def _padded(self, column):
        """An array of numbers, or of lists of ids."""
        if isinstance(column[0], int):
            return np.array(column, np.int32)
        padded = np.full((len(column), max(map(len, column))), self._padding_id, np.int32)
        for row, ids in zip(padded, column, strict=True):
            row[: len(ids)] = ids
        return padded

    def _invoke(self, name, inputs):
        with self._slots:
            try:
                interpreter = self._free.pop()
            except IndexError:
                interpreter = self._load()
            outputs = interpreter.get_signature_runner(name)(**inputs)
            self._free.append(interpreter)
        return outputs


def _batches(lengths, max_rows, max_tokens):
    """The places of rows of these lengths in batches of similar length, longest first."""
    batches, longest = [], 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        is_full = not batches or len(batches[-1]) >= min(max_rows, max_tokens // longest)
        if is_full or lengths[i] < _LEAST_LENGTH * longest:
            batches.append([])
            longest = lengths[i]
        batches[-1].append(i)
    return batches
