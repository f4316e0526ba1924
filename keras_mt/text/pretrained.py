"""SentencePiece with a separate table of ids: the tokenizer of imported models."""

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.text.base_tokenizer import BaseTokenizer, ids_of
from keras_mt.text.tokenizer import SentencePiece, sentencepiece_processor

_SETTINGS = "tokenizer.json"
_MODELS = "source.model", "target.model"


class PretrainedTokenizer(tf.Module, BaseTokenizer):
    """SentencePiece with a table of the ids of its pieces; each may be shared by both sides.

    Text is normalised only as the SentencePiece model says. A piece that is not in the table is
    unknown. What looks like a special token, such as `</s>`, is treated as plain text; but a source
    may begin with one of the `language_tags`, such as `>>fra<<`.

    `models` are serialised, and `pieces` in the order of their ids, "" for an id without one: the
    source's and the target's, or one for both. `special` pieces are not text; the first is the
    unknown token. `forbidden_ids` are besides the padding. Languages and tags have their ids by
    name. The rest is as in `BaseTokenizer`.
    """

    # The constructor sets these, which are properties in the base class.
    vocab_size = target_vocab_size = 0
    forbidden_ids: tuple[int, ...] = ()
    begins_word = np.zeros(0, bool)
    description = ""

    def __init__(
        self,
        models: Sequence[bytes],
        pieces: Sequence[Sequence[str]],
        *,
        special: Sequence[str],
        padding_id: int,
        bos_id: int,
        eos_id: int,
        source_eos_id: int | None = None,
        forbidden_ids: Sequence[int] = (),
        languages: Mapping[str, int] | None = None,
        language_first: bool = True,
        target_on_source: bool = False,
        source_prefix: Sequence[int] = (),
        language_tags: Mapping[str, int] | None = None,
        forced: Sequence[int] = (),
        description: str = "SentencePiece with a table of ids",
    ):
        super().__init__()
        settings = {n: x for n, x in locals().items() if n not in ("self", "__class__", "models")}
        self._json = json.dumps({"kind": "pretrained", **settings}, ensure_ascii=False) + "\n"
        self.models = tuple(models)
        self.padding_id, self.bos_id, self.eos_id = padding_id, bos_id, eos_id
        self.source_eos_id = source_eos_id
        self.forbidden_ids = tuple(sorted({padding_id, *forbidden_ids} - {eos_id}))
        self.language_ids = tuple((languages or {}).items())
        self.language_first, self.target_on_source = language_first, target_on_source
        self.forced, self.source_prefix = tuple(forced), tuple(source_prefix)
        self._tags = tuple((language_tags or {}).items())
        self.description = description
        codes = {id for _, id in (*self.language_ids, *self._tags)}
        self._sides = [
            _Side(_MODELS[i], models[i % len(models)], pieces[i % len(pieces)], special, codes)
            for i in range(max(len(models), len(pieces)))
        ]
        self.vocab_size, self.target_vocab_size = self._sides[0].size, self._sides[-1].size
        self.begins_word = np.array([piece.startswith("▁") for piece in pieces[0]])

    def __reduce__(self) -> tuple:
        return functools.partial(type(self), **self.settings), (self.models,)

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's other arguments than `models`, by name."""
        return {name: x for name, x in json.loads(self._json).items() if name != "kind"}

    def pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """See `BaseTokenizer.pieces`; for sources, whose tag is a piece too."""
        if not self._tags:
            return self._sides[0].ids(strings)
        tag, text = self._without_tag(strings)
        return tf.concat([tag, self._sides[0].ids(text)], axis=1)

    def language_tags(self, strings: tf.Tensor) -> tf.RaggedTensor | None:
        return self._without_tag(strings)[0] if self._tags else None

    def target_pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._sides[-1].ids(strings)

    def _without_tag(self, strings):
        """The id of the tag that each text begins with, ragged, and the rest of the text."""
        tag = tf.strings.regex_replace(strings, r"(?s)^(>>.*?<<).*$", r"\1", replace_global=False)
        ids = ids_of(tag, self._tags)
        length = tf.where(ids >= 0, tf.strings.length(tag), 0)
        text = tf.strings.substr(strings, length, tf.strings.length(strings) - length)
        return tf.ragged.boolean_mask(ids[:, None], ids[:, None] >= 0), text

    def text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """See `BaseTokenizer.text`."""
        return self._sides[-1].text(ids)

    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._sides[-1].pieces, ids)

    def source_id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._sides[0].pieces, ids)

    @property
    def fingerprint(self) -> str:
        """The SHA-256, in hexadecimal, of what `save` writes."""
        digest = hashlib.sha256(self._json.encode())
        for model in self.models:
            digest.update(hashlib.sha256(model).digest())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Writes the models, and a JSON file of all other settings, into an existing folder."""
        for name, model in zip(_MODELS, self.models, strict=False):
            (Path(path) / name).write_bytes(model)
        (Path(path) / _SETTINGS).write_text(self._json, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote.

        Raises:
            FileNotFoundError: If there is no tokenizer.json or source.model.
            ValueError: If a file is damaged.
        """
        path = Path(path)
        text = (path / _SETTINGS).read_text(encoding="utf-8")
        source, target = (path / name for name in _MODELS)
        files = [source, target] if target.is_file() else [source]
        models = [file.read_bytes() for file in files]
        try:
            settings = json.loads(text)
            del settings["kind"]
            return cls(models, **settings)
        except (ValueError, TypeError, LookupError, AttributeError, ZeroDivisionError) as error:
            reason = str(error).rstrip(".")
            raise InputError(f"{path} holds no tokenizer that can be read: {reason}.") from None


class _Side(tf.Module):
    """One side's SentencePiece model and table of ids, as constants of the graph.

    The search is binary, by hashes: a hash table would be one more resource to initialize.
    """

    def __init__(self, name, model, pieces, special, codes) -> None:
        super().__init__()
        sentencepiece_processor(model, name)
        self.size = len(pieces)
        self._unknown_id = pieces.index(special[0])
        self._model = SentencePiece(model, tf.string)
        is_text = np.array(
            [piece not in ("", *special) and id not in codes for id, piece in enumerate(pieces)]
        )
        self.pieces = tf.constant([piece.encode() for piece in pieces])
        self._is_text = tf.constant(is_text)
        ids = np.flatnonzero(is_text)
        known = tf.gather(self.pieces, ids)
        hashes = _hashed(known).numpy()
        order = np.argsort(hashes, kind="stable")
        if (np.diff(hashes[order]) == 0).any():
            raise InputError("two pieces are the same, or have the same hash")
        self._ids = tf.constant(ids[order], tf.int32)
        self._known = tf.gather(known, order)
        self._hashes = tf.constant(hashes[order])

    def ids(self, strings):
        """Ragged int32 `[batch, (tokens)]`."""
        return tf.ragged.map_flat_values(self._look_up, self._model.tokenize(strings))

    def _look_up(self, pieces):
        place = tf.searchsorted(self._hashes, _hashed(pieces))
        place = tf.minimum(place, tf.size(self._hashes) - 1)
        known = tf.gather(self._known, place) == pieces
        return tf.where(known, tf.gather(self._ids, place), self._unknown_id)

    def text(self, ids):
        is_text = tf.ragged.map_flat_values(tf.gather, self._is_text, ids)
        pieces = tf.ragged.map_flat_values(tf.gather, self.pieces, ids)
        text = self._model.detokenize(tf.ragged.boolean_mask(pieces, is_text))
        return tf.strings.strip(tf.strings.regex_replace(text, "▁", " "))


def _hashed(strings):
    return tf.strings.to_hash_bucket_fast(strings, 2**63 - 1)
