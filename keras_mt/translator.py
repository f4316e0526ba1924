"""Strings to strings, from a model and a tokenizer."""

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from keras_mt.data.encoded import with_end
from keras_mt.data.segments import cut, split_sentences
from keras_mt.data.tokenizer import Tokenizer
from keras_mt.decoding import MAX_LENGTH_PENALTY, NO_HYPOTHESIS, SearchOptions, beam_search
from keras_mt.options import as_integer
from keras_mt.run_folder import RunFolder

# Segments translated at once, and the tokens of their longest times their number.
_BATCH_SEGMENTS = 256
_BATCH_TOKENS = 64 * 256
# Texts handed over at once, and the bytes of their longest times their number.
_BATCH_TEXTS = 256
_BATCH_BYTES = 64 * 512

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_PREFIX = tf.TensorSpec([None], tf.string, name="prefix")
_TARGET = tf.TensorSpec([None], tf.string, name="target")


class Hypothesis(NamedTuple):
    """A translation.

    Attributes:
        text: The translation, str.
        score: Its log-probability / length ** length_penalty, where repetitions count with the
            `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, where asked for.
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None


class Score(NamedTuple):
    """How probable a given translation is.

    Attributes:
        log_prob: Its log-probability.
        tokens: Its pieces with the end, each with its log-probability.
    """

    log_prob: float
    tokens: list[tuple[str, float]]

    @property
    def perplexity(self):
        """That of the translation's tokens, the end among them."""
        return math.exp(-self.log_prob / len(self.tokens))


class Translator:
    """Translates strings with beam search.

    A text of more tokens than the model's limit is translated in pieces, cut after sentences or, if
    it must be, between words, and given back as one. Its score is that of all its tokens together.

    Args:
        model: A `keras_mt.Transformer`, or a list of them with one vocabulary: an ensemble, whose
            log-probabilities are averaged.
        tokenizer: The `keras_mt.Tokenizer` that the model was trained with.
        beam_size: Number of live hypotheses; 1 is greedy search.
        n_best: Number of translations of each sentence, at most `beam_size`.
        length_penalty: Exponent of the length in the score: a hypothesis's score is its
            log-probability / length ** length_penalty, where the length counts the generated
            tokens with the end, and the log-probability is that with the `repetition_penalty`.
        min_length: The fewest tokens to generate, with the end.
        max_length: The most tokens to generate, with the end; None means twice the source's tokens
            plus 10, and never more than the model's own limit.
        split_sentences: Whether to translate each sentence and each line of a text by itself, as
            the model was trained to. Line ends stay where they are; else they are white space.
        **options: The other fields of `keras_mt.decoding.SearchOptions`: `repetition_penalty` and
            `no_repeat_ngram_size`; `temperature`, `top_k`, `top_p` and `seed` for sampling.

    Attributes:
        card: What there is to say of the model in its exports, a dict; `load` fills it from the
            run's configuration and its last measurement of BLEU.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        prefixes: What each translation shall begin with, of the same type, or None.

    Returns:
        For a str a str, for a list a list of str (with `n_best` > 1 a list, and a list of lists,
        best first), for a tensor a string tensor `[batch, n_best]`. The translation of an empty
        string is empty.

    Raises:
        ValueError: If an option is out of range, model and tokenizer do not fit, an argument is of
            another type, or a text has no translation, since its prefix is longer than the model's
            limit or the model's probabilities are not finite (its row of a tensor is empty
            instead).

    Example:

    >>> translator = Translator.load("runs/pt_en")  # doctest: +SKIP
    >>> translator("O livro está em cima da mesa.")  # doctest: +SKIP
    'The book is on the table.'
    """

    def __init__(
        self,
        model,
        tokenizer,
        beam_size=4,
        n_best=1,
        length_penalty=1.0,
        min_length=0,
        max_length=None,
        split_sentences=False,
        **options,
    ):
        self.options = SearchOptions(beam_size, n_best, length_penalty, min_length, **options)
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        self.tokenizer = tokenizer
        self.max_length = None if max_length is None else as_integer("max_length", max_length)
        self.split_sentences = split_sentences
        for model in self.models:
            if model.vocab_size != tokenizer.vocab_size:
                raise ValueError(
                    f"The model has a vocabulary of {model.vocab_size} tokens and the tokenizer "
                    f"one of {tokenizer.vocab_size}: they were not trained together."
                )
        self.card = {}
        self._limit = min(model.max_length for model in self.models)
        if self._limit < 2:
            raise ValueError(
                "The model's max_length must be at least 2, for a token and the end. "
                f"Received: {self._limit}"
            )
        longest = self._limit if max_length is None else max_length
        if not max(1, min_length) <= longest <= self._limit:
            raise ValueError(
                f"max_length must be at least 1, at least min_length={min_length} and at most the "
                f"model's {self._limit}. Received: max_length={max_length}"
            )
        # Nothing in them is for AutoGraph, which would take most of the time that tracing takes.
        function = functools.partial(tf.function, autograph=False)
        self._translate = {  # By whether there are prefixes, and token scores are asked for.
            (prefixes, token_scores): function(
                functools.partial(self._translate_batch, token_scores=token_scores),
                input_signature=[_TEXT, _PREFIX] if prefixes else [_TEXT],
            )
            for prefixes in (False, True)
            for token_scores in (False, True)
        }
        self._score = function(self._score_batch, input_signature=[_TEXT, _TARGET])
        self._align = function(self._align_batch, input_signature=[_TEXT, _TARGET])

    @classmethod
    def load(cls, run_dir, architecture=None, **options):
        """A translator from the run folder that `keras-mt train` wrote.

        Args:
            run_dir: Folder with `model.keras` and `tokenizer.model`; or a list of folders whose
                tokenizers are the same, an ensemble.
            architecture: `MODULE:CLASS`, or the class, of a model that is none of keras_mt's own;
                or a list of such.
            **options: `beam_size` and the other options of the constructor.

        Returns:
            A `Translator`, which computes in float32 whatever the dtype of the weights.

        Raises:
            FileNotFoundError: If a file is missing; the message says which.
            ValueError: If the tokenizers differ, or a model's class is not known.
        """
        folders = [
            RunFolder(d) for d in (run_dir if isinstance(run_dir, list | tuple) else [run_dir])
        ]
        for folder in folders:
            folder.check_finished()
            if folder.tokenizer_digest != folders[0].tokenizer_digest:
                raise ValueError(
                    f"{folder} and {folders[0]} have different tokenizers: the models of an "
                    "ensemble must share one."
                )
        models = [_in_float32(folder.load_model(architecture)) for folder in folders]
        translator = cls(models, folders[0].load_tokenizer(), **options)
        translator.card = folders[0].card()
        return translator

    def __call__(self, texts, prefixes=None):
        if isinstance(texts, tf.Tensor):
            columns = [texts] if prefixes is None else [texts, prefixes]
            _check_string_tensors(columns)
            return self._translate[len(columns) > 1, False](*columns)["translations"]
        one = isinstance(texts, str)
        if one:
            if not isinstance(prefixes, str | None):
                raise ValueError(
                    f"prefixes must be a str, as texts is. Received: {type(prefixes).__name__}"
                )
            texts, prefixes = [texts], None if prefixes is None else [prefixes]
        rows = self._rows(texts, prefixes)
        found = [as_hypotheses(row) for row in rows]
        for i, row in enumerate(rows):
            if row["refused"]:
                raise ValueError(self._too_long(f"Prefix {i}"))
            if found[i] is None:
                raise ValueError(
                    f"The model gives no finite probabilities for text {i}. Has its training "
                    "diverged?"
                )
        if self.options.n_best == 1:
            found = [hypotheses[0].text for hypotheses in found]
        else:
            found = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]
        return found[0] if one else found

    def hypotheses(self, texts, prefixes=None, token_scores=False):
        """The `n_best` translations of each text with their scores.

        Args:
            texts: List of str.
            prefixes: List of str, what each translation shall begin with, or None.
            token_scores: Whether to fill in the hypotheses' `tokens`.

        Returns:
            For each text a list of `Hypothesis`, best first (fewer than `n_best` where there are
            no more), or None where the prefix is longer than the model's limit, or the model's
            probabilities are not finite.

        Raises:
            ValueError: If an argument is not a list of str, or the lists differ in length.
        """
        rows = self._rows(texts, prefixes, token_scores)
        return [self._with_tokens(as_hypotheses(row), row) for row in rows]

    def _rows(self, texts, prefixes=None, token_scores=False):
        columns = [texts] if prefixes is None else [texts, prefixes]
        return run_in_batches(self._translate[prefixes is not None, token_scores], *columns)

    def score(self, sources, targets):
        """How probable the model finds given translations.

        Args:
            sources: List of str.
            targets: List of str, a translation of each.

        Returns:
            List of `Score`; None where a text is longer than the model's limit.

        Raises:
            ValueError: If an argument is not a list of str, or the lists differ in length.

        Example:

        >>> translator.score(["O livro."], ["The book."])[0].perplexity  # doctest: +SKIP
        """
        return [
            None
            if row["refused"]
            else Score(float(row["log_probs"].sum()), self._pieces(row["tokens"], row["log_probs"]))
            for row in run_in_batches(self._score, sources, targets, names=("sources", "targets"))
        ]

    def align(self, source, target=None):
        """The attention of each token of a translation over the tokens of its source.

        The cross-attention of the last decoder block, averaged over its heads.

        Args:
            source: A str.
            target: A str, its translation; the translator's own when None or empty.

        Returns:
            The pieces of the source and of the target, lists of str, each with the end at its
            end, and a float32 NumPy array `[target_pieces, source_pieces]` whose rows sum to 1.

        Raises:
            ValueError: If an argument is not a str, or a text is longer than the model's limit.
        """
        texts = {"source": source, "target": "" if target is None else target}
        outputs = self._align(*(tf.constant([_utf8(name, text)]) for name, text in texts.items()))
        outputs = {name: tensor[0].numpy() for name, tensor in outputs.items()}
        if outputs["refused"]:
            raise ValueError(self._too_long("The source or the target"))
        pieces = [
            [piece.decode("utf-8") for piece in outputs[f"{side}_tokens"][:length]]
            for side in ("source", "target")
            for length in [outputs[f"{side}_lengths"]]
        ]
        return *pieces, outputs["attention"][: len(pieces[1]), : len(pieces[0])]

    def _with_tokens(self, hypotheses, row):
        if hypotheses is None or "log_probs" not in row:
            return hypotheses
        tokens = map(self._pieces, row["tokens"], row["log_probs"])
        return [
            hypothesis._replace(tokens=pieces)
            for hypothesis, pieces in zip(hypotheses, tokens, strict=False)
        ]

    def _pieces(self, ids, log_probs):
        """The pieces of the ids that are not padding, each with its log-probability."""
        real = ids != Tokenizer.PADDING
        return list(zip(self.tokenizer.pieces(ids[real]), map(float, log_probs[real]), strict=True))

    def _too_long(self, what):
        return (
            f"{what} has more than {self._limit - 1} tokens, the model's limit: split it into "
            "sentences."
        )

    def _ids(self, text):
        """Ids with the end, int32 `[batch, length]`, cut at the limit, and whether they were."""
        ids = self.tokenizer.tokenize(text)
        return with_end(ids[:, : self._limit - 1]).to_tensor(), ids.row_lengths() >= self._limit

    def _translate_batch(self, text, prefix=None, own=None, token_scores=False):
        """Translations `[batch, n_best]`, their scores, which rows were `refused`, token scores.

        Args:
            text: String `[batch]`.
            prefix: String `[batch]`, what each translation begins with, or None.
            own: None, or the rows' own options, tensors `[batch]`: `beam_size`, `n_best` and
                `length_penalty`, in which the translator's are the greatest, and `max_length`, 0
                for the translator's. A row whose options are impossible is refused.
            token_scores: Whether to return `tokens` and `log_probs` `[batch, n_best, length]`,
                with padding anywhere.
        """
        refused = tf.zeros_like(text, tf.bool)
        if own is not None:
            possible = (
                (own["beam_size"] >= 1)
                & (own["beam_size"] <= self.options.beam_size)
                & (own["n_best"] >= 1)
                & (own["n_best"] <= tf.minimum(own["beam_size"], self.options.n_best))
                & (own["length_penalty"] >= 0)
                & (own["length_penalty"] <= MAX_LENGTH_PENALTY)
                & (own["max_length"] >= 0)
                & (own["max_length"] <= self._limit)
            )
            refused = ~possible
            own = {n: tf.where(possible, x, tf.ones_like(x)) for n, x in own.items()}
        source, row, glue = self._segments(text)
        columns = {}
        if own is not None:
            columns["own"] = {n: tf.gather(x, row) for n, x in own.items()}
        if prefix is not None:
            prefix, long_prefix = self._ids(prefix)
            refused |= long_prefix
            first = _is_first(row)  # Of the segments of its text.
            prefix = tf.where(prefix == Tokenizer.END, 0, prefix)
            columns["prefix"] = tf.where(first[:, None], tf.gather(prefix, row), 0)
        columns["refused"] = tf.gather(refused, row)
        found = self._translate_segments(source, columns, token_scores)
        penalty = own["length_penalty"][:, None] if own else float(self.options.length_penalty)
        return {**_joined(found, row, glue, tf.shape(text)[0], penalty), "refused": refused}

    def _segments(self, text):
        """What is translated at once of string `[batch]`, in its order.

        Returns:
            Ids, ragged int32 `[segments, (tokens)]`; the text that each is of, int32
            `[segments]`; and string `[segments]`, what stands between it and the one before.
        """
        where = True
        if not self.split_sentences:
            where = self.tokenizer.tokenize(text).row_lengths() >= self._limit
            text = tf.strings.regex_replace(text, "\n", " ")
        sentences, glue = split_sentences(text, where)
        ids, sentence = cut(
            self.tokenizer.tokenize(sentences.flat_values),
            tf.constant(self.tokenizer.begins_word),
            self._limit - 1,
        )
        first = _is_first(sentence)
        row = tf.gather(tf.cast(sentences.value_rowids(), tf.int32), sentence)
        return ids, row, tf.where(first, tf.gather(glue.flat_values, sentence), " ")

    def _translate_segments(self, source, columns, token_scores):
        """Translates ids, ragged `[segments, (tokens)]`, those of like length together.

        Args:
            source: The ids, without their ends.
            columns: What is of each segment: whether it is `refused`, its `prefix`, its `own`.
            token_scores: Whether `tokens` and `log_probs` `[segments, n_best, length]` are asked
                for.

        Returns:
            A dict of `translations`, `scores` and `lengths`, `[segments, n_best]`.
        """
        lengths = tf.cast(source.row_lengths(), tf.int32)
        order = tf.argsort(lengths, direction="DESCENDING")
        n_best, segments = self.options.n_best, tf.size(order)

        def translate(start, found):
            longest = lengths[order[start]] + 1
            size = tf.clip_by_value(_BATCH_TOKENS // longest, 1, _BATCH_SEGMENTS)
            chosen = order[start : start + size]
            ids = with_end(tf.gather(source, chosen)).to_tensor()
            own = tf.nest.map_structure(lambda x: tf.gather(x, chosen), columns)
            outputs = self._translate_ids(ids, **own, token_scores=token_scores)
            return start + size, {n: _stacked(found[n], outputs[n]) for n in found}

        found = {
            "translations": tf.zeros((0, n_best), tf.string),
            "scores": tf.zeros((0, n_best)),
            "lengths": tf.zeros((0, n_best), tf.int32),
        }
        if token_scores:
            found["tokens"] = tf.zeros((0, n_best, 0), tf.int32)
            found["log_probs"] = tf.zeros((0, n_best, 0))
        _, found = tf.while_loop(
            lambda start, found: start < segments,
            translate,
            (0, found),
            shape_invariants=(
                tf.TensorShape([]),
                {n: tf.TensorShape([None, n_best, None][: x.shape.rank]) for n, x in found.items()},
            ),
            parallel_iterations=1,  # So that memory holds one batch.
        )
        back = tf.math.invert_permutation(order)
        return {name: tf.gather(tensor, back) for name, tensor in found.items()}

    def _translate_ids(self, source, refused, prefix=None, own=None, token_scores=False):
        empty = _is_empty(source)
        found = self._search(source, refused | empty, prefix, own)
        rows, n_best, length = tf.unstack(tf.shape(found.tokens))
        translations = self.tokenizer.detokenize(tf.reshape(found.tokens, (rows * n_best, length)))
        first = tf.range(self.options.n_best)[None] == 0  # The translation of nothing is nothing.
        nothing = (empty & ~refused)[:, None] & first
        outputs = {
            "translations": tf.reshape(translations, (rows, n_best)),
            "scores": tf.where(nothing, 0.0, found.scores),
            "lengths": tf.math.count_nonzero(found.tokens, axis=2, dtype=tf.int32),
            "tokens": found.tokens,
        }
        if token_scores:
            log_probs = self._token_log_probs(
                tf.repeat(source, n_best, axis=0), tf.reshape(found.tokens, (-1, length))
            )
            outputs["log_probs"] = tf.reshape(log_probs, tf.shape(found.tokens))
        return outputs

    def _search(self, source, skipped, prefix=None, own=None):
        """Hypotheses for source ids `[batch, length]` with the end, none where `skipped`."""
        if self.max_length is None:
            lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) - 1  # Without the end.
            max_length = tf.maximum(2 * lengths + 10, self.options.min_length)
            max_length = tf.minimum(max_length, self._limit)
        else:
            max_length = tf.fill(tf.shape(skipped), self.max_length)
        if own is not None:
            max_length = tf.where(own["max_length"] > 0, own["max_length"], max_length)
        if prefix is not None:
            length = tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32)
            max_length = tf.maximum(max_length, tf.minimum(length + 1, self._limit))
        return beam_search(
            self._step,
            [model.start_decoding(source) for model in self.models],
            tf.where(skipped, 0, max_length),
            prefix=prefix,
            row_options=own and {n: own[n] for n in ("beam_size", "n_best", "length_penalty")},
            normalize=len(self.models) == 1,
            start_id=Tokenizer.START,
            end_id=Tokenizer.END,
            forbidden_ids=(Tokenizer.PADDING, Tokenizer.START),
            **dataclasses.asdict(self.options),
        )

    def _step(self, tokens, position, caches, mask):
        """The models' next logits or, of several, the mean of their log-probabilities."""
        steps = [
            model.decode_step(tokens, position, cache, mask)
            for model, cache in zip(self.models, caches, strict=True)
        ]
        logits, caches = zip(*steps, strict=True)
        if len(logits) == 1:
            return logits[0], list(caches)
        return tf.add_n([tf.nn.log_softmax(x) for x in logits]) / len(logits), list(caches)

    def _score_batch(self, text, target):
        (source, long_source), (target, long_target) = self._ids(text), self._ids(target)
        return {
            "tokens": target,
            "log_probs": self._token_log_probs(source, target),
            "refused": long_source | long_target,
        }

    def _align_batch(self, text, target):
        """The cross-attention of each row's target over its source.

        Where the target is empty it is the translator's own. The outputs are padded with empty
        strings and zeros to the longest row's lengths; those of a refused row are 0.
        """
        source, refused = self._ids(text)
        own = tf.strings.length(target) == 0
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        found = self._search(source, refused | ~own | _is_empty(source)).tokens[:, 0]
        target = tf.where(own, self.tokenizer.detokenize(found), target)
        ids, long_target = self._ids(target)
        refused |= long_target
        source, ids = (tf.where(refused[:, None], 0, each) for each in (source, ids))
        inputs, attention = _shifted(ids), []
        for model in self.models:
            memory, hidden = model.encode(source), model.target_embedding(inputs)
            for block in model.decoder_blocks:
                hidden, scores = block(hidden, memory, return_attention_scores=True)
            attention.append(tf.reduce_mean(tf.cast(scores, tf.float32), axis=1))
        real = tf.cast((ids != 0)[:, :, None] & (source != 0)[:, None, :], tf.float32)
        outputs = {
            "translations": tf.where(refused, "", target),
            "attention": tf.reduce_mean(attention, axis=0) * real,
            "refused": refused,
        }
        for side, tokens in (("source", source), ("target", ids)):
            pieces = self.tokenizer.id_to_string(tokens)
            outputs[f"{side}_tokens"] = tf.where(tokens == 0, "", pieces)
            outputs[f"{side}_lengths"] = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)
        return outputs

    def _token_log_probs(self, source, target):
        """Log-probabilities of the target's tokens `[batch, length]`; 0 for padding."""
        inputs = {"source": source, "target": _shifted(target)}
        log_probs = tf.add_n([tf.nn.log_softmax(model(inputs)) for model in self.models])
        log_probs = tf.gather(log_probs / len(self.models), target, batch_dims=2)
        return tf.where(target == Tokenizer.PADDING, 0.0, log_probs)

    def export(self, directory, dtype="float32", **options):
        """Writes a SavedModel that TensorFlow Serving loads: strings in, translations out.

        Its signature `serving_default` takes `text`, string `[batch]`, and returns `translations`,
        string `[batch, n_best]`, best first, and `scores`, float32 `[batch, n_best]`. There are
        also `greedy`, a beam of 1; `tunable`, in which each row brings its own options; `score`,
        log-probabilities of given translations; and `align`, soft alignments. It needs
        tensorflow and tensorflow_text, and not keras_mt. The folder appears whole or not at all.

        Args:
            directory: The version folder to write, such as `saved_models/pt_en/1`.
            dtype: Dtype of the weights and of the computation: "float32", "bfloat16" or "float16".
            **options: The others of `keras_mt.serving.export.export`: `freeze`, `max_beam_size`,
                `card` and `warmup_texts`.

        Raises:
            FileExistsError: If the directory is there already.
        """
        from keras_mt.serving.export import export  # It stands above: this is a short cut to it.

        export(self, directory, dtype, **options)


def run_in_batches(function, *columns, names=("texts", "prefixes")):
    """Runs a function of string tensors `[batch]` over lists of str of any lengths.

    Texts of like length go together, and their outputs come back in order.

    Args:
        function: From string tensors `[batch]`, one of each column, to a dict of tensors
            `[batch, ...]`.
        *columns: Lists of str, equally many in each.
        names: The columns' names in messages.

    Returns:
        For each text a dict of what the function returned for it, as NumPy arrays.

    Raises:
        ValueError: If a column is not a list of str that UTF-8 can encode, or they differ in
            length.
    """
    columns = [_encoded(name, texts) for name, texts in zip(names, columns, strict=False)]
    if len({len(texts) for texts in columns}) > 1:
        numbers = " and ".join(str(len(texts)) for texts in columns)
        raise ValueError(
            f"{' and '.join(names)} must have the same length. Received: {numbers} texts"
        )
    lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    found = [None] * len(order)
    while order:
        size = max(1, min(_BATCH_TEXTS, _BATCH_BYTES // max(1, lengths[order[0]])))
        batch, order = order[:size], order[size:]
        outputs = function(*(tf.constant([texts[i] for i in batch]) for texts in columns))
        outputs = {name: tensor.numpy() for name, tensor in outputs.items()}
        for row, i in enumerate(batch):
            found[i] = {name: array[row] for name, array in outputs.items()}
    return found


def as_hypotheses(row):
    """What a search returned for one text as a list of `Hypothesis`; None if there is none."""
    if row["scores"][0] <= NO_HYPOTHESIS:
        return None
    return [
        Hypothesis(translation.decode("utf-8", "replace"), float(score))
        for translation, score in zip(row["translations"], row["scores"], strict=True)
        if score > NO_HYPOTHESIS
    ]


def _encoded(name, texts):
    # A str or a tensor would be taken apart.
    if isinstance(texts, (str, bytes, tf.Tensor)) or not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a list of str. Received: {type(texts).__name__}")
    return [_utf8(f"{name}[{i}]", text) for i, text in enumerate(texts)]


def _utf8(name, text):
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a str. Received: {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} cannot be encoded as UTF-8: {error}") from None


def _check_string_tensors(columns):
    for name, column in zip(("texts", "prefixes"), columns, strict=False):
        if not (
            isinstance(column, tf.Tensor)
            and column.dtype == tf.string
            and column.shape.rank in (1, None)
        ):
            raise ValueError(f"{name} must be a string tensor [batch]. Received: {column!r}")
    shapes = [column.shape for column in columns]
    if not shapes[0].is_compatible_with(shapes[-1]):
        raise ValueError(f"texts and prefixes must have the same length. Received: shapes {shapes}")


def _joined(found, row, glue, batch, length_penalty):
    """The translations of texts from those of their segments: the first of each, the second, ...

    Args:
        found: Dict of tensors `[segments, n_best, ...]`.
        row: int32 `[segments]`: the text that each is of.
        glue: String `[segments]`: what stands between it and the one before.
        batch: Number of texts.
        length_penalty: A number, or float32 `[batch, 1]`.
    """
    n_best = found["scores"].shape[1]
    places = tf.range(n_best)[None]
    counts = tf.math.count_nonzero(found["scores"] > NO_HYPOTHESIS, axis=1, dtype=tf.int32)
    # A segment with fewer hypotheses than another of its text gives its last one again.
    place = tf.minimum(places, tf.maximum(counts - 1, 0)[:, None])
    found = {name: tf.gather(tensor, place, batch_dims=1) for name, tensor in found.items()}
    there = tf.math.unsorted_segment_max(counts, row, batch)
    # Where one segment has none, neither has its text.
    there = tf.where(tf.math.unsorted_segment_min(counts, row, batch) > 0, there, 0)
    there = places < there[:, None]
    glued = tf.strings.join([tf.repeat(glue[:, None], n_best, axis=1), found["translations"]])
    translations = tf.strings.unsorted_segment_join(glued, row, batch)

    def summed(tensor):
        return tf.math.unsorted_segment_sum(tensor, row, batch)

    lengths = tf.cast(found["lengths"], tf.float32)
    own_penalty = (
        length_penalty if isinstance(length_penalty, float) else tf.gather(length_penalty, row)
    )
    log_probs = summed(found["scores"] * lengths**own_penalty)
    scores = log_probs / tf.maximum(summed(lengths), 1.0) ** length_penalty
    outputs = {
        "translations": tf.where(there, translations, ""),
        "scores": tf.where(there, scores, NO_HYPOTHESIS),
    }
    for name in ("tokens", "log_probs"):
        if name in found:
            each = tf.RaggedTensor.from_value_rowids(found[name], row, batch)
            each = tf.transpose(each.to_tensor(), (0, 2, 1, 3))  # [batch, n_best, segments, length]
            rows, _, segments, length = tf.unstack(tf.shape(each))
            outputs[name] = tf.reshape(each, (rows, n_best, segments * length))
    # A sum of second best may have the better score, since long segments weigh more.
    order = tf.argsort(outputs["scores"], direction="DESCENDING", stable=True)
    return {name: tf.gather(tensor, order, batch_dims=1) for name, tensor in outputs.items()}


def _stacked(found, more):
    """Tensors `[rows, n_best]`, or `[rows, n_best, length]` padded, below one another."""
    if found.shape.rank == 3:
        length = tf.maximum(tf.shape(found)[2], tf.shape(more)[2])
        found, more = (
            tf.pad(x, ((0, 0), (0, 0), (0, length - tf.shape(x)[2]))) for x in (found, more)
        )
    return tf.concat([found, more], axis=0)


def _is_first(numbers):
    # [n]: where sorted numbers differ from the one before
    return tf.not_equal(numbers, tf.concat([[-1], numbers[:-1]], 0))


def _is_empty(ids):
    # [batch]: which rows of ids with the end have nothing before it
    return tf.math.count_nonzero(ids, axis=1) <= 1


def _shifted(target):
    # [batch, length]: the start, and all but the last token.
    start = tf.fill((tf.shape(target)[0], 1), Tokenizer.START)
    return tf.concat([start, target], axis=1)[:, :-1]


def _in_float32(model):
    if model.dtype_policy.name == "float32":
        return model
    copy = type(model).from_config({**model.get_config(), "dtype": "float32"})
    copy.set_weights(model.get_weights())
    return copy
