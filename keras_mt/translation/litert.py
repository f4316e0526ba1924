"""Exports for LiteRT, run by its interpreter: texts to translations, without TensorFlow.

It does text by text what `keras_mt.inference.graph` does inside a graph, and is held to it.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from keras_mt.errors import DIVERGED, LINE_TOO_LONG, InputError
from keras_mt.files import LITERT_MODEL
from keras_mt.options.search import LOOPS, NO_HYPOTHESIS, TranslationOptions
from keras_mt.text.plain import PlainTokenizer
from keras_mt.translation.batches import batches_of, usable_cores
from keras_mt.translation.interface import LANGUAGES
from keras_mt.translation.results import MEASURES, as_str
from keras_mt.translation.segments import Pair, Segmenter, Translation, block_diagonal, joined

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
            self.tokenizer = PlainTokenizer.load(folder)
        except FileNotFoundError as error:
            raise InputError(f"There is no {error.filename}: put it back.") from None
        settings = card["options"]
        if self.tokenizer.fingerprint != card["tokenizer"]["sha256"]:
            raise InputError(
                f"The tokenizer in {folder} is not that of its {LITERT_MODEL}: put back the files "
                "that the export wrote."
            )
        self._options = options
        self._segmenter = Segmenter(
            self.tokenizer, settings["limit"], options.split_sentences, settings["reads_terms"]
        )
        self._nothing_found = options.nothing_found(settings["shortlist"]).encode()
        limit = min(self._segmenter.source_limit, self._segmenter.target_limit)
        self._line_too_long = LINE_TOO_LONG.format(limit).encode()
        self._target_tokens = _TARGET_LOGITS // self.tokenizer.target_vocab_size
        self._interpreters = _Interpreters(
            folder / LITERT_MODEL, settings["rows"] or _ROWS, self.tokenizer.padding_id
        )
        languages = LANGUAGES if self.tokenizer.languages else ()
        self.inputs = {"serving_default": ("text", *languages)}
        self.outputs = {"confidence": MEASURES, "score": ("token_log_probs",)}
        if "attention" in self._interpreters.signatures["score"]["outputs"]:
            self.outputs["align"] = ("attention",)

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
        cuts = [
            self._segmenter.segments("" if target else text, *codes) for text, target, codes in rows
        ]
        self._search([each for segments, _ in cuts for each in segments if each.pieces])
        answers, every = [], []  # The latter are the pairs of translations.
        for cut, (text, target, codes) in zip(cuts, rows, strict=True):
            found, reason = joined(*cut, self._options.length_penalty), self._nothing_found
            if target:
                pairs, reason = self._segmenter.pairs(text, target, *codes), self._line_too_long
                found = [Translation(target, 0.0, pairs)] if pairs else []
            answers.append({
                "translations": [each.text.encode() for each in found],
                "scores": [each.score for each in found],
                "refused": b"" if found else reason,
            })  # fmt: skip
            every.append([each.pairs for each in found])
        if confidence:
            self._read(every)
            for answer, several in zip(answers, every, strict=True):
                measured = list(map(self._measures, several))
                answer |= {name: [x[i] for x in measured] for i, name in enumerate(MEASURES)}
        if aligns:
            self._add_attention(answers, every, [codes for *_, codes in rows])
        return answers

    def _search(self, segments):
        """Sets the translations of segments."""
        every = self._interpreters.run("translate", segments)
        for segment, outputs in zip(segments, every, strict=True):
            columns = [outputs[name].tolist() for name in ("tokens", "lengths", "scores")]
            for tokens, length, score in zip(*columns, strict=True):
                if score > NO_HYPOTHESIS:
                    ids = segment.pieces, segment.source, tokens[:length], self._segmenter.forced
                    text = as_str(self.tokenizer.text(tokens[:length]))
                    segment.found.append(Pair(*ids, text, score))

    def _measures(self, pairs):
        """The `MEASURES` of a translation; see `keras_mt.inference.confidence`."""
        own = [each for x in pairs for each in zip(x.log_probs, x.tokens, strict=True)]
        worst, token = min(own, key=lambda each: each[0], default=(0.0, None))
        mean = sum(log_prob for log_prob, _ in own) / max(len(own), 1)
        loops = differ = False
        for pair in pairs:
            words = [id for id in pair.tokens if id != self.tokenizer.eos_id]
            less, more = sorted([len(pair.pieces), len(words)])
            loops |= _repeats(words) and not _repeats(pair.pieces)
            differ |= more > 2 * less + 5 and bool(pair.tokens)
        piece = b"" if token is None else self.tokenizer.id_to_string(token)
        return mean, worst, piece, loops, differ

    def _add_attention(self, answers, every, codes):
        """Adds the tokens of translations and texts, and the attention of the former."""
        every = [
            [[self._segmenter.reread(pair, *own) for pair in pairs] for pairs in several]
            for several, own in zip(every, codes, strict=True)
        ]
        self._read(every)
        as_source, as_target = self.tokenizer.source_id_to_string, self.tokenizer.id_to_string
        for answer, several in zip(answers, every, strict=True):
            sources = [[as_source(id) for x in pairs for id in x.source] for pairs in several]
            targets = [[as_target(id) for x in pairs for id in x.tokens] for pairs in several]
            answer |= {"source_tokens": sources, "source_lengths": list(map(len, sources))}
            answer |= {"target_tokens": targets, "target_lengths": list(map(len, targets))}
            answer["attention"] = [
                block_diagonal([x.attention for x in pairs]) for pairs in several
            ]

    def _score(self, rows):
        """The log-probabilities of the tokens of rows' targets."""
        every, answers = [self._segmenter.pairs(*both, *codes) for *both, codes in rows], []
        self._read([every])
        for pairs in every:
            log_probs = [x for pair in pairs for x in pair.log_probs]
            tokens = [self.tokenizer.id_to_string(id) for pair in pairs for id in pair.tokens]
            reason = b"" if np.isfinite(log_probs).all() else DIVERGED.encode()
            answer = {"tokens": tokens, "log_probs": log_probs, "lengths": len(tokens)}
            answers.append({**answer, "refused": reason if pairs else self._line_too_long})
        return answers

    def _read(self, every):
        """Sets the log-probabilities and the attention of all pairs; nothing has none."""
        pairs = [pair for several in every for pairs in several for pair in pairs if pair.target]
        outputs = self._interpreters.run("score", pairs, self._target_tokens)
        for pair, found in zip(pairs, outputs, strict=True):
            own = slice(pair.forced, len(pair.target))
            pair.log_probs = found["log_probs"][own].tolist()
            if "attention" in found:
                pair.attention = found["attention"][own, : len(pair.source)]


def _repeats(ids):
    """True where a sequence of ids repeats; see `keras_mt.inference.confidence.repeats`."""
    return any(
        ids[i : i + again] == ids[i + period : i + period + again]
        for period, again in LOOPS.items()
        for i in range(len(ids) - period - again + 1)
    )


class _Interpreters:
    """Interpreters of a file, one for each thread, since each has memory of its own."""

    def __init__(self, path: Path, rows: int, padding_id: int):
        self._path, self._rows, self._padding_id = path, rows, padding_id
        # Those that wait; None is in the place of one that is loaded when it is needed.
        self._free: LifoQueue[Interpreter | None] = LifoQueue()
        first = self._load()
        for each in [None] * (usable_cores() - 1) + [first]:
            self._free.put(each)
        self.signatures = first.get_signature_list()
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
        self, name: str, rows: Sequence[Any], max_tokens: float = math.inf
    ) -> list[dict[str, np.ndarray]]:
        """The outputs of a signature for rows, whose attributes have the names of its inputs.

        A batch of rows of similar length has at most so many tokens, padding included.
        """
        names, outputs = self.signatures[name]["inputs"], [{}] * len(rows)
        lengths = [max(np.size(getattr(row, key)) for key in names) for row in rows]
        for batch in batches_of(lengths, self._rows, max_tokens, _LEAST_LENGTH):
            inputs = {key: self._padded([getattr(rows[i], key) for i in batch]) for key in names}
            interpreter = self._free.get()
            try:
                interpreter = interpreter or self._load()
                found = interpreter.get_signature_runner(name)(**inputs)
            finally:
                self._free.put(interpreter)
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
