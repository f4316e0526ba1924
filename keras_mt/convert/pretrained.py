"""The folders of transformers, which the families of models share.

A family is a file, with

- `DEFAULTS`, transformers' defaults for fields that config.json does not have; `SWITCHES`, fields
  of config.json that have no other value; `ARGUMENTS`, arguments of `Transformer` that have none;
- `read_tokenizer(folder, arguments)`, which returns the tokenizer and the default languages;
- for a family that is written, `NAME`, what messages call it, and `CLASS`, its model there.
"""

import json
from pathlib import Path
from typing import Any

from keras_mt.errors import InputError
from keras_mt.text.tokenizer import sentencepiece_processor

_MAX_BYTES = 2**28  # Of a file that is not one of weights.
# The types of fields that nothing else checks by their values.
_TYPES = {
    **dict.fromkeys(("model_type", "tokenizer_class", "language_codes"), str),
    **dict.fromkeys(("source_lang", "target_lang", "src_lang", "tgt_lang"), str),
    **dict.fromkeys(("decoder_vocab_size", "max_length", "max_new_tokens"), int),
    **dict.fromkeys(("normalize_embedding", "add_final_layer_norm"), bool),
    **dict.fromkeys(("separate_vocabs", "legacy_behaviour"), bool),
    **dict.fromkeys(("bad_words_ids", "suppress_tokens"), list),
    "added_tokens_decoder": dict,
}
_TYPE_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


class Folder:
    """A folder's files by name, and the fields of its configuration files.

    Of older folders `generation` has the fields of config.json.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = self.json("config.json")
        tokenizer = self.json("tokenizer_config.json", optional=True)
        self.tokenizer = {n: x for n, x in tokenizer.items() if x is not None}
        generation = self.json("generation_config.json", optional=True)
        ids = ("eos_token_id", "decoder_start_token_id")
        more = {n: self.config.get(n) for n in ids} if generation else self.config
        self._generation_fields = {*generation}
        self.generation = {n: x for n, x in {**more, **generation}.items() if x is not None}

    def json(self, name: str, optional: bool = False) -> dict[str, Any]:
        """A file's fields, whose types are checked; none if an optional file is missing."""
        if optional and not (self.path / name).is_file():
            return {}
        try:
            value = json.loads(self.read(name).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path / name} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InputError(f"{self.path / name} must hold a JSON object.")
        for field in _TYPES.keys() & value.keys() if name.endswith("config.json") else ():
            if value[field] is not None:
                self.check_type(field, value[field], _TYPES[field], name)
        return value

    def check_type(self, field: str, value: Any, expected: type, file: str = "config.json") -> None:
        """Checks the type of a field; an integer is a number."""
        if type(value) is not expected and (expected, type(value)) != (float, int):
            raise self.refuse(field, value, _TYPE_NAMES[expected], file)

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.path} is not a folder to import: it has no {name}.")
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path} is too large.")
        return path.read_bytes()

    def refuse(
        self, field: str, value: Any, expected: str, file: str = "config.json"
    ) -> InputError:
        """The error that names the file and field."""
        return InputError(
            f"{self.path / file}: {field} must be {expected}. Received: {field}={value!r}"
        )

    def generation_file(self, field: str) -> str:
        """The file that has a field of the generation config."""
        return "generation_config.json" if field in self._generation_fields else "config.json"

    def refuse_generation(self, field: str, value: Any, expected: str) -> InputError:
        """The error that names a field of the generation config and its file."""
        return self.refuse(field, value, expected, self.generation_file(field))

    def id(self, field: str, size: int) -> int:
        """A token id of the generation config, of a vocabulary of so many tokens."""
        value = self.generation.get(field)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not is_id(value, size):
            raise self.refuse_generation(field, value, f"a token id, below {size}")
        return value

    def special_ids(self, padding_id: int, size: int) -> dict[str, Any]:
        """The arguments of a `PretrainedTokenizer` that are special ids of the target."""
        return {
            "padding_id": padding_id,
            "bos_id": self.id("decoder_start_token_id", size),
            "eos_id": self.id("eos_token_id", size),
            "forbidden_ids": self._forbidden(size),
        }

    def _forbidden(self, size):
        """The token ids that a translation never holds."""
        words = self.generation.get("bad_words_ids", [])
        suppressed = self.generation.get("suppress_tokens", [])
        if not all(isinstance(w, list) and len(w) == 1 and is_id(w[0], size) for w in words):
            expected = f"single token ids below {size}, each in a list"
            raise self.refuse_generation("bad_words_ids", words, expected)
        if not all(is_id(token, size) for token in suppressed):
            expected = f"a list of token ids below {size}"
            raise self.refuse_generation("suppress_tokens", suppressed, expected)
        return sorted({*suppressed, *(token for (token,) in words)})

    def vocabulary(self, name: str, optional: bool = False) -> dict[str, int]:
        """A file's ids by their pieces."""
        ids = self.json(name, optional)
        if not all(type(i) is int and i >= 0 for i in ids.values()):
            raise InputError(f"{self.path / name} must give each piece its id, an integer.")
        return ids

    def sentencepiece(self, name: str) -> bytes:
        """A file's SentencePiece model."""
        model = self.read(name)
        sentencepiece_processor(model, self.path / name)
        return model

    def check_special(self, vocabulary: dict[str, int], padding_id: int) -> None:
        """Checks that a vocabulary has the special pieces, and the padding that the model has."""
        for piece in ("<unk>", "</s>", "<pad>"):
            if piece not in vocabulary:
                raise InputError(f"{self.path / 'vocab.json'} must have {piece}.")
        if vocabulary["<pad>"] != padding_id:
            expected = f"{vocabulary['<pad>']}, that of <pad>"
            raise self.refuse("pad_token_id", padding_id, expected)

    def by_id(self, vocabulary: dict[str, int], size: int) -> list[str]:
        """The pieces in the order of their ids, with "" for ids without a piece."""
        pieces = [""] * size
        for piece, id in vocabulary.items():
            if id >= size:
                raise self.refuse("vocab_size", size, f"more than {id}, the id of {piece!r}")
            pieces[id] = piece.encode("utf-8", "replace").decode("utf-8")
        return pieces


def is_id(value: Any, size: int) -> bool:
    """True for a token id of a vocabulary of so many tokens."""
    return type(value) is int and 0 <= value < size
