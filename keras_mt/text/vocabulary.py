"""What tokenizers know without tensors: special ids, languages, models and tables of pieces."""

import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import sentencepiece

from keras_mt.errors import InputError
from keras_mt.files import atomic_write

LANGUAGE = re.compile(r"<2(\w+)>")  # The piece of a language, as in Johnson et al. 2017.
_SETTINGS = "tokenizer.json"
_MODELS = "source.model", "target.model"


class Vocabulary:
    """The special ids of a tokenizer, and where they stand; see `BaseTokenizer` for each."""

    padding_id: int = 0
    bos_id: int = 2
    eos_id: int = 3
    language_ids: Sequence[tuple[str, int]] = ()
    language_first: bool = True
    target_on_source: bool = False
    source_prefix: Sequence[int] = ()
    source_eos_id: int | None = None
    forced: Sequence[int] = ()
    term_markers: tuple[int, int] | None = None

    @property
    def source_vocab_size(self) -> int:
        return self.vocab_size

    @property
    def target_vocab_size(self) -> int:
        return self.vocab_size

    def target_pieces(self, strings: Any) -> Any:
        """The `pieces` of targets; override it if the two sides have different vocabularies."""
        return self.pieces(strings)

    def source_id_to_string(self, ids: Any) -> Any:
        """The `id_to_string` of sources; override it for separate vocabularies."""
        return self.id_to_string(ids)

    @property
    def languages(self) -> Sequence[str]:
        return tuple(code for code, _ in self.language_ids)

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        return tuple({self.padding_id, self.bos_id} - {self.eos_id})

    @property
    def description(self) -> str:
        return type(self).__name__

    def around_source(self, language: Any) -> tuple[list, list]:
        """The ids before and behind a source's pieces, with that of its language if any."""
        languages = [language] if self.language_ids else []
        end = [self.eos_id if self.source_eos_id is None else self.source_eos_id]
        if self.language_first:
            return [*self.source_prefix, *languages], end
        return [*self.source_prefix], end + languages

    def before_target(self, language: Any) -> list:
        """The ids that a target is forced to begin with; `language` is that of its own."""
        return [language] if self.language_ids and not self.target_on_source else [*self.forced]


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model, bytes, whose ids are 0 padding, 1 unknown, 2 start, 3 end."""

    padding_id, unknown_id, bos_id, eos_id = 0, 1, 2, 3
    target_on_source = True
    description = "SentencePiece with byte fallback, NFKC"

    def __init__(self, model: bytes):
        self.model = model
        self._processor = sentencepiece_processor(model, "The model")
        ids = range(self._processor.get_piece_size())
        pieces = self._processor.id_to_piece([*ids])
        found = [(LANGUAGE.fullmatch(pieces[i]), i) for i in ids if self._processor.is_control(i)]
        self.language_ids = tuple((code[1], i) for code, i in found if code)
        # Control characters, which `pieces` makes spaces of, have bytes all the same.
        markers = [self._processor.piece_to_id(f"<0x0{i}>") for i in (1, 2)]
        self.term_markers = None if self.unknown_id in markers else tuple(markers)
        self._begins = [piece[0] == "▁" for piece in pieces]

    def __reduce__(self) -> tuple:
        return type(self), (self.model,)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads a SentencePiece model from a file.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is not a SentencePiece model with the special ids of this class.
        """
        model = Path(path).read_bytes()
        ids = sentencepiece_processor(model, path)
        ids = ids.pad_id(), ids.unk_id(), ids.bos_id(), ids.eos_id()
        if ids != (cls.padding_id, cls.unknown_id, cls.bos_id, cls.eos_id):
            raise InputError(
                f"{path} must have the ids 0, 1, 2, 3 for padding, unknown, start and end. "
                f"It has {', '.join(map(str, ids))}."
            )
        return cls(model)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the SentencePiece model to a file, atomically."""
        with atomic_write(path) as temporary:
            temporary.write_bytes(self.model)

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        languages = (id for _, id in self.language_ids)
        return self.padding_id, self.unknown_id, self.bos_id, *languages

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return self._processor.get_piece_size()

    @property
    def begins_word(self) -> np.ndarray:
        """Boolean NumPy array `[vocab_size]`: the pieces that begin a word."""
        return np.array(self._begins)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model's bytes, in hexadecimal."""
        return hashlib.sha256(self.model).hexdigest()


class TableVocabulary(Vocabulary):
    """SentencePiece models with separate tables of ids; each may be shared by both sides.

    `models` are serialized, and `pieces` in the order of their ids, "" for an id without one: the
    source's and the target's, or one for both. `special` pieces are not text; the first is the
    unknown token. `forbidden_ids` are besides the padding. Languages and tags have their ids by
    name. The rest is as in `BaseTokenizer`.
    """

    # The constructor sets these, which are properties of tokenizers.
    vocab_size = target_vocab_size = 0
    forbidden_ids: tuple[int, ...] = ()
    begins_word = np.zeros(0, bool)
    description = ""
    side_class: Callable  # Of a model, its pieces, which of them are text, and the unknown id.

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
        settings = {"kind": "pretrained", **settings}
        # No dict, which TensorFlow would wrap; and written only where it is asked for.
        self._written = functools.partial(json.dumps, settings, ensure_ascii=False)
        self.models = tuple(models)
        self.padding_id, self.bos_id, self.eos_id = padding_id, bos_id, eos_id
        self.source_eos_id = source_eos_id
        self.forbidden_ids = tuple(sorted({padding_id, *forbidden_ids} - {eos_id}))
        self.language_ids = tuple((languages or {}).items())
        self.language_first, self.target_on_source = language_first, target_on_source
        self.forced, self.source_prefix = tuple(forced), tuple(source_prefix)
        self.tag_ids = tuple((language_tags or {}).items())
        self.description = description
        codes = {id for _, id in (*self.language_ids, *self.tag_ids)}
        self._sides = [
            self._side(_MODELS[i], models[i % len(models)], pieces[i % len(pieces)], special, codes)
            for i in range(max(len(models), len(pieces)))
        ]
        self.vocab_size, self.target_vocab_size = len(pieces[0]), len(pieces[-1])
        self.begins_word = np.array([piece[:1] == "▁" for piece in pieces[0]])

    def __reduce__(self) -> tuple:
        return functools.partial(type(self), **self.settings), (self.models,)

    @property
    def _json(self):
        return self._written() + "\n"

    def _side(self, name, model, pieces, special, codes):
        sentencepiece_processor(model, name)  # It refuses what is none.
        unknown_id, special = pieces.index(special[0]), {"", *special}
        is_text = [piece not in special and id not in codes for id, piece in enumerate(pieces)]
        return self.side_class(model, pieces, is_text, unknown_id)

    def target_pieces(self, strings: Any) -> Any:
        return self._sides[-1].ids(strings)

    def text(self, ids: Any) -> Any:
        return self._sides[-1].text(ids)

    def id_to_string(self, ids: Any) -> Any:
        return self._sides[-1].strings(ids)

    def source_id_to_string(self, ids: Any) -> Any:
        return self._sides[0].strings(ids)

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's other arguments than `models`, by name."""
        return {name: x for name, x in json.loads(self._written()).items() if name != "kind"}

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
        names = _MODELS if (path / _MODELS[1]).is_file() else _MODELS[:1]
        models = [(path / name).read_bytes() for name in names]
        try:
            settings = json.loads(text)
            del settings["kind"]
            return cls(models, **settings)
        except (ValueError, TypeError, LookupError, AttributeError, ZeroDivisionError) as error:
            reason = str(error).rstrip(".")
            raise InputError(f"{path} holds no tokenizer that can be read: {reason}.") from None


@functools.lru_cache(maxsize=1)
def _loaded(model):
    processor = sentencepiece.SentencePieceProcessor()
    return processor if model and processor.LoadFromSerializedProto(model) else None


def sentencepiece_processor(
    model: bytes, path: str | os.PathLike
) -> sentencepiece.SentencePieceProcessor:
    """The processor of a file's bytes; ValueError, which names the file, if they are no model."""
    with contextlib.suppress(RuntimeError):
        if processor := _loaded(model):
            return processor
    raise InputError(f"{path} is not a SentencePiece model.")
