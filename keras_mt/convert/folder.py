"""A folder of transformers: its files, which are not trusted, and the fields of those of JSON."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from sentencepiece import SentencePieceProcessor

from keras_mt.convert.fields import read_fields, refusal, search_options
from keras_mt.errors import InputError
from keras_mt.text.vocabulary import sentencepiece_processor

_Fields = TypeVar("_Fields")


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """Fields of tokenizer_config.json."""

    tokenizer_class: str = ""
    name_or_path: str = ""
    source_lang: str = ""  # As MarianMT calls them.
    target_lang: str = ""
    src_lang: str = ""  # As M2M-100 and NLLB call them.
    tgt_lang: str = ""
    separate_vocabs: bool = False
    language_codes: Literal["m2m100"] = "m2m100"
    legacy_behaviour: bool = False
    added_tokens_decoder: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class GenerationConfig:
    """Fields of generation_config.json other than those of `SEARCH`, and one that is checked."""

    max_new_tokens: int = 0
    max_length: int = 0
    # Token ids, or lists of one.
    eos_token_id: Any = None
    decoder_start_token_id: Any = None
    forced_bos_token_id: Any = None
    forced_eos_token_id: Any = None
    bad_words_ids: list[list[int]] = dataclasses.field(default_factory=list)
    suppress_tokens: list[int] = dataclasses.field(default_factory=list)
    do_sample: Literal[False] = False
    early_stopping: Literal[True, False, "never"] = False


# Fields of generation_config.json: the option of a Translator, and transformers' default.
SEARCH = {
    "num_beams": ("beam_size", 1),
    "num_return_sequences": ("n_best", 1),
    "length_penalty": ("length_penalty", 1.0),
    "early_stopping": ("early_stopping", False),
    "min_length": ("min_length", 0),
    "repetition_penalty": ("repetition_penalty", 1.0),
    "no_repeat_ngram_size": ("no_repeat_ngram_size", 0),
    "renormalize_logits": ("renormalize", False),
}
# Fields of generation_config.json that are not supported, but for values without effect.
_UNSUPPORTED = (
    "begin_suppress_tokens", "constraints", "diversity_penalty", "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty", "exponential_decay_length_penalty", "force_words_ids",
    "forced_decoder_ids", "guidance_scale", "min_new_tokens", "num_beam_groups", "penalty_alpha",
    "sequence_bias", "watermarking_config",
)  # fmt: skip


class Folder:
    """A folder's files by name, and the fields of its configuration files.

    Older folders have no generation_config.json: then config.json has its fields.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = self.json("config.json")
        self.tokenizer = self.fields(TokenizerConfig, "tokenizer_config.json")
        given = self.json("generation_config.json", optional=True)
        self.generation_file = path / ("generation_config.json" if given else "config.json")
        ids = {name: self.config.get(name) for name in ("eos_token_id", "decoder_start_token_id")}
        given = {n: x for n, x in (given or self.config).items() if x is not None}
        self.generation = read_fields(GenerationConfig, ids | given, self.generation_file)
        self.search = search_options(given, SEARCH, self.generation_file)
        for field in _UNSUPPORTED:
            if given.get(field) not in (None, 0, 1, [], {}):
                expected = "left out: it is not supported"
                raise refusal(self.generation_file, field, given[field], expected)

    def fields(self, cls: type[_Fields], file: str) -> _Fields:
        """A dataclass with the fields of a JSON file, which may be missing."""
        return read_fields(cls, self.json(file, optional=True), self.path / file)

    def json(self, name: str, optional: bool = False) -> dict[str, Any]:
        """A file's object; an empty one if an optional file is missing."""
        if optional and not (self.path / name).is_file():
            return {}
        try:
            value = json.loads(self.read(name).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path / name} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InputError(f"{self.path / name} must hold a JSON object.")
        return value

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.path} is not a folder to import: it has no {name}.")
        return path.read_bytes()

    def sentencepiece(self, name: str) -> tuple[bytes, SentencePieceProcessor]:
        """The bytes of a SentencePiece model, and its processor."""
        model = self.read(name)
        return model, sentencepiece_processor(model, self.path / name)

    def vocabulary(self, name: str, optional: bool = False) -> dict[str, int]:
        """A file's ids by their pieces."""
        ids = self.json(name, optional)
        if not all(type(i) is int and i >= 0 for i in ids.values()):
            raise InputError(f"{self.path / name} must give each piece its id, an integer.")
        return ids

    def refuse(self, field: str, value: Any, expected: str) -> InputError:
        """The error for a field of config.json."""
        return refusal(self.path / "config.json", field, value, expected)

    def token_id(self, field: str, size: int) -> int:
        """A token id of the generation config, of a vocabulary of this size."""
        value = getattr(self.generation, field)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not is_id(value, size):
            raise refusal(self.generation_file, field, value, f"a token id, below {size}")
        return value

    def special_ids(self, padding_id: int, size: int) -> dict[str, Any]:
        """The arguments of a `PretrainedTokenizer` that are special ids of the target."""
        words = self.generation.bad_words_ids
        forbidden = {*self.generation.suppress_tokens, *(ids[0] for ids in words if len(ids) == 1)}
        if any(len(ids) != 1 for ids in words) or not all(is_id(i, size) for i in forbidden):
            field = "bad_words_ids and suppress_tokens"
            expected = f"single token ids below {size}"
            raise refusal(self.generation_file, field, sorted(forbidden), expected)
        return {
            "padding_id": padding_id,
            "bos_id": self.token_id("decoder_start_token_id", size),
            "eos_id": self.token_id("eos_token_id", size),
            "forbidden_ids": sorted(forbidden),
        }


def is_id(value: Any, size: int) -> bool:
    """True for a token id of a vocabulary of this size."""
    return type(value) is int and 0 <= value < size
