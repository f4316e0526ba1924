"""Export to Argos Translate, whose packages LibreTranslate installs too."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_mt.convert import ctranslate2
from keras_mt.convert.formats import ModelFormat
from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.files import atomic_write
from keras_mt.layers.positional_embedding import sinusoidal_positions
from keras_mt.text import BaseTokenizer, PretrainedTokenizer, Tokenizer
from keras_mt.text.vocabulary import sentencepiece_processor
from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "Argos Translate",
    {"quantization", "card"},
    quantizations=ctranslate2.FORMAT.quantizations,
    package=("ctranslate2", "argos"),
)
_NEVER = -1e4  # The bias of a token that is not generated; float16 has it.
_POSITIONS = 1025  # CTranslate2 cuts sources after 1024 tokens, and the end follows.


def to_argos(
    translator: Translator,
    file: str | os.PathLike,
    quantization: str | None = None,
    card: Mapping[str, Any] | None = None,
) -> None:
    """Writes a package, `.argosmodel`; `card` may give `source` and `target`, and its `version`.

    Argos Translate splits sentences and searches in its own way. It suppresses no token, so those
    that are forbidden get a bias.
    """
    FORMAT.check(translator, file, quantization)
    card = {**translator.card, **(card or {})}
    if isinstance(card.get("version"), float):  # 1.10 would be 1.1.
        raise InputError("The version must be text: give it as --card 'version=\"1.10\"'.")
    source, source_name = _language(card, "source")
    target, target_name = _language(card, "target")
    model = _sentencepiece(translator.tokenizer)
    spec = ctranslate2.specification(translator)
    _lengthen(spec.encoder, translator.models[0].source_embedding)
    _lengthen(spec.decoder, translator.models[0].target_embedding)
    output, size = spec.decoder.projection, translator.tokenizer.target_vocab_size
    bias = output.bias if isinstance(output.bias, np.ndarray) else np.zeros(size, "float32")
    forbidden = np.isin(np.arange(size), translator.tokenizer.forbidden_ids)
    output.bias = np.where(forbidden, np.float32(_NEVER), bias)
    metadata = {
        "package_version": str(card.get("version", "1.0")),
        "argos_version": "1.11",  # The one that packages were tried with.
        "from_code": source,
        "from_name": source_name,
        "to_code": target,
        "to_name": target_name,
    }
    title = f"# {source_name} to {target_name}\n\nA translator, written by keras_mt.\n"
    known = [f"- {name}: {x}\n" for name, x in card.items() if isinstance(x, (str, list))]
    version = re.sub(r"\W", "_", metadata["package_version"])
    name = f"translate-{source}_{target}-{version}"  # The packages' folders lie side by side.
    with atomic_write(file) as zipped, tempfile.TemporaryDirectory(dir=zipped.parent) as parent:
        folder = Path(parent, name)
        (folder / "model").mkdir(parents=True)
        ctranslate2.save(spec, folder / "model", quantization)
        (folder / "sentencepiece.model").write_bytes(model)
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", "utf-8")
        (folder / "README.md").write_text("\n".join([title, *known]), "utf-8")
        os.replace(shutil.make_archive(f"{parent}/package", "zip", parent, name), zipped)


def _lengthen(side, embedding):
    """Gives a side as many positions as Argos may need; the last one that was learned repeats."""
    if (encoding := embedding.encoding) is not None:
        table = side.position_encodings.encodings
        length = max(len(table), _POSITIONS)
        longer = np.pad(table, ((0, length - len(table)), (0, 0)), "edge")
        if encoding != "learned":
            longer = sinusoidal_positions(length, table.shape[1], encoding, embedding.padding_id)
        side.position_encodings.encodings = longer


def _language(card, side):
    """The code and the English name of a side's language."""
    langcodes = require("langcodes", "argos", "Export to Argos Translate")
    code = str(card.get(side, ""))
    code = langcodes.standardize_tag(code) if langcodes.tag_is_valid(code) else code
    if not re.fullmatch("[a-z]{2,3}", code):
        raise InputError(
            f"Argos Translate needs the code of the {side}, two or three letters: give it as a "
            f"field of the card, such as --card {side}=en. Received: {card.get(side)!r}"
        )
    return code, langcodes.Language.get(code).display_name()


def _sentencepiece(tokenizer: BaseTokenizer) -> bytes:
    """The one model that Argos cuts sources and joins targets with; else InputError."""
    if type(tokenizer) not in (Tokenizer, PretrainedTokenizer):
        foreign = f"a {type(tokenizer).__name__}"
    elif tokenizer.languages or len(getattr(tokenizer, "tag_ids", ())) > 1:
        foreign = "several languages"
    elif tokenizer.source_prefix or tokenizer.forced:
        foreign = "tokens that each source or target begins with"
    else:
        models = getattr(tokenizer, "models", ()) or (tokenizer.model,)
        if _spells(models[0]) or not _spells(models[-1]):
            return models[0]
        foreign = "letters spelled in bytes in its target's vocabulary alone"
    raise InputError(f"{FORMAT.title} has no place for a model with {foreign}.")


def _spells(model):
    """True for a model that spells rare letters in bytes."""
    processor = sentencepiece_processor(model, "The model")
    return processor.is_byte(processor.piece_to_id("<0x41>"))
