"""Strings to strings, from a model and a tokenizer."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_mt.data.batching import with_end
from keras_mt.data.tokenizer import Tokenizer
from keras_mt.decoding import NO_HYPOTHESIS, beam_search
from keras_mt.decoding.beam_search import check_search_options
from keras_mt.models import Transformer

# Sentences translated at once, and the bytes of their longest times their number.
_BATCH_SENTENCES = 64
_BATCH_BYTES = 64 * 512


class Hypothesis(NamedTuple):
    """A translation and its score, its log-probability / length ** length_penalty."""

    text: str
    score: float


class Translator:
    """Translates strings with beam search.

    Args:
        model: A `keras_mt.Transformer`.
        tokenizer: The `keras_mt.Tokenizer` it was trained with.
        beam_size: Number of live hypotheses; 1 is greedy search.
        n_best: Number of translations of each sentence, at most `beam_size`.
        length_penalty: Exponent of the length in the score: a hypothesis's score is its
            log-probability / length ** length_penalty, where the length counts the generated
            tokens with the end.
        min_length: The fewest tokens to generate, with the end.
        max_length: The most tokens to generate, with the end; None means twice the source's tokens
            plus 10, and never more than the model's own limit.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.

    Returns:
        For a str a str, for a list a list of str (with `n_best` > 1 a list, and a list of lists,
        best first), for a tensor a string tensor `[batch, n_best]`. The translation of an empty
        string is empty.

    Raises:
        ValueError: If an option is out of range, model and tokenizer do not fit, or a text is
            longer than the model's limit.

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
    ):
        check_search_options(beam_size, n_best, length_penalty, min_length)
        if model.vocab_size != tokenizer.vocab_size:
            raise ValueError(
                f"The model has a vocabulary of {model.vocab_size} tokens and the tokenizer one of "
                f"{tokenizer.vocab_size}: they were not trained together."
            )
        if max_length is not None and not max(1, min_length) <= max_length <= model.max_length:
            raise ValueError(
                f"max_length must be at least 1, at least min_length={min_length} and at most the "
                f"model's {model.max_length}. Received: max_length={max_length}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.n_best = n_best
        self.length_penalty = length_penalty
        self.min_length = min_length
        self.max_length = max_length
        self._translate = tf.function(
            self._translate_batch, input_signature=[tf.TensorSpec([None], tf.string, name="text")]
        )

    @classmethod
    def load(cls, run_dir, **options):
        """A translator from the run folder that `keras-mt train` wrote.

        Args:
            run_dir: Folder with `model.keras` and `tokenizer.model`.
            **options: `beam_size` and the other options of the constructor.

        Returns:
            A `Translator`.

        Raises:
            FileNotFoundError: If a file is missing; the message says which.
        """
        run_dir = Path(run_dir)
        for name in ("model.keras", "tokenizer.model"):
            if not (run_dir / name).is_file():
                raise FileNotFoundError(
                    f"{run_dir} is not a finished run folder: it has no {name}. "
                    "`keras-mt train --output RUN_DIR` makes one."
                )
        model = keras.models.load_model(run_dir / "model.keras", compile=False)
        return cls(model, Tokenizer.load(run_dir / "tokenizer.model"), **options)

    def __call__(self, texts):
        if isinstance(texts, tf.Tensor):
            return self._translate(texts)["translations"]
        one = isinstance(texts, str)
        found = self.hypotheses([texts] if one else texts)
        for i, hypotheses in enumerate(found):
            if hypotheses is None:
                raise ValueError(
                    f"Text {i} has more than {self.model.max_length - 1} tokens, the model's "
                    "limit: split it into sentences."
                )
        if self.n_best == 1:
            found = [hypotheses[0].text for hypotheses in found]
        else:
            found = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]
        return found[0] if one else found

    def hypotheses(self, texts):
        """The `n_best` translations of each text with their scores.

        Args:
            texts: List of str.

        Returns:
            For each text a list of `Hypothesis`, best first (fewer than `n_best` where there are
            no more), or None where the text is longer than the model's limit.
        """
        return translate_texts(self._translate, texts)

    def _translate_batch(self, text):
        ids = self.tokenizer.tokenize(text)
        lengths = tf.cast(ids.row_lengths(), tf.int32)  # [batch]
        limit = self.model.max_length
        refused, empty = lengths >= limit, lengths == 0
        source = with_end(ids[:, : limit - 1]).to_tensor()  # [batch, source_length]
        if self.max_length is None:
            max_length = tf.minimum(2 * lengths + 10, limit)
        else:
            max_length = tf.fill(tf.shape(lengths), self.max_length)
        cache, memory = self.model.start_decoding(source)
        found = beam_search(
            lambda tokens, position, cache, mask: self.model.decode_step(
                tokens, position, cache, memory, mask
            ),
            cache,
            tf.where(refused | empty, 0, max_length),
            beam_size=self.beam_size,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            min_length=self.min_length,
            start_id=Tokenizer.START,
            end_id=Tokenizer.END,
            forbidden_ids=(Tokenizer.PADDING, Tokenizer.START),
        )
        tokens = tf.reshape(found.tokens, (-1, tf.shape(found.tokens)[-1]))
        translations = tf.reshape(self.tokenizer.detokenize(tokens), (-1, self.n_best))
        first = tf.range(self.n_best)[None] == 0  # The translation of nothing is nothing.
        return {
            "translations": translations,
            "scores": tf.where(empty[:, None] & first, 0.0, found.scores),
        }

    def align(self, source, target):
        """The attention of each token of a translation over the tokens of its source.

        The cross-attention of the last decoder block, averaged over its heads.

        Args:
            source: A str.
            target: A str, its translation.

        Returns:
            The pieces of the source and of the target, lists of str, each with the end at its
            end, and a float32 NumPy array `[target_pieces, source_pieces]` whose rows sum to 1.
        """
        source_ids = with_end(self.tokenizer.tokenize([source])).to_tensor()
        target_ids = with_end(self.tokenizer.tokenize([target])).to_tensor()
        memory = self.model.encode(source_ids)
        inputs = tf.concat([[[Tokenizer.START]], target_ids[:, :-1]], axis=1)
        hidden = self.model.target_embedding(inputs)
        for block in self.model.decoder_blocks:
            hidden, scores = block(hidden, memory, return_attention_scores=True)
        scores = tf.reduce_mean(tf.cast(scores, tf.float32), axis=1)[0].numpy()
        source_pieces = self.tokenizer.pieces(source_ids[0])
        return source_pieces, self.tokenizer.pieces(target_ids[0]), scores

    def export(self, directory, dtype="float32"):
        """Writes a SavedModel that TensorFlow Serving loads: strings in, translations out.

        Its signature `serving_default` takes `text`, string `[batch]`, and returns `translations`,
        string `[batch, n_best]`, best first, and `scores`, float32 `[batch, n_best]`. A text
        longer than the model's limit gives empty translations and the score -1e9. It needs
        tensorflow and tensorflow_text, and not keras_mt. The folder appears whole or not at all.

        Args:
            directory: The version folder to write, such as `saved_models/pt_en/1`.
            dtype: Dtype of the weights and of the computation: "float32", "bfloat16" or "float16".

        Raises:
            FileExistsError: If the directory is there already.
        """
        directory = Path(directory)
        if directory.exists():
            raise FileExistsError(
                f"{directory} exists and is not overwritten. Export to a new version folder, "
                f"such as {directory.parent / _next_version(directory.parent)}."
            )
        exported = Translator(
            _with_dtype(self.model, dtype),
            self.tokenizer,
            beam_size=self.beam_size,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            min_length=self.min_length,
            max_length=self.max_length,
        )
        module = tf.Module()
        module.variables_ = [variable.value for variable in exported.model.variables]
        module.tokenizer = exported.tokenizer
        config = {
            "beam_size": self.beam_size,
            "n_best": self.n_best,
            "length_penalty": self.length_penalty,
            "min_length": self.min_length,
            "max_length": self.max_length,
            "max_source_tokens": self.model.max_length - 1,
            "dtype": dtype,
        }
        directory.parent.mkdir(parents=True, exist_ok=True)
        # A name that is not a number, so that a server that watches the folder passes it over.
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            tf.saved_model.save(
                module, temporary, signatures={"serving_default": exported._translate}
            )
            (temporary / "assets.extra").mkdir()
            (temporary / "assets.extra" / "config.json").write_text(json.dumps(config, indent=2))
            temporary.chmod(0o755)
            os.rename(temporary, directory)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def translate_texts(function, texts):
    """Runs a SavedModel signature, or what becomes one, over a list of texts of any lengths.

    Texts of like length go together, and come back in their order; see `Translator.hypotheses`.
    """
    encoded = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"Text {i} must be a str. Received: {type(text).__name__}")
        try:
            encoded.append(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise ValueError(f"Text {i} cannot be encoded as UTF-8: {error}") from None
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
    found = [None] * len(encoded)
    while order:
        size = max(1, min(_BATCH_SENTENCES, _BATCH_BYTES // max(1, len(encoded[order[0]]))))
        batch, order = order[:size], order[size:]
        outputs = function(tf.constant([encoded[i] for i in batch]))
        for i, translations, scores in zip(
            batch, outputs["translations"].numpy(), outputs["scores"].numpy(), strict=True
        ):
            if scores[0] > NO_HYPOTHESIS:
                found[i] = [
                    Hypothesis(translation.decode("utf-8", "replace"), float(score))
                    for translation, score in zip(translations, scores, strict=True)
                    if score > NO_HYPOTHESIS
                ]
    return found


def _with_dtype(model, dtype):
    copy = Transformer.from_config({**model.get_config(), "dtype": dtype})
    copy.set_weights(model.get_weights())
    return copy


def _next_version(parent):
    versions = [int(path.name) for path in parent.iterdir() if path.name.isdigit()]
    return str(max(versions, default=0) + 1)
