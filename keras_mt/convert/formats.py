"""Exports: each format declares what it has a place for as `FORMAT` in its file, by `to_NAME`.

This file imports neither Keras nor TensorFlow, so that the command's help appears at once.
"""

import dataclasses
import importlib
import inspect
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.files import check_new
from keras_mt.options import SearchOptions, TranslationOptions
from keras_mt.options.fields import option

# Each format, and what the help of the command says of it.
FORMATS = {
    "saved_model": "TensorFlow Serving",
    "ctranslate2": "CTranslate2",
    "argos": "LibreTranslate",
    "huggingface": "transformers",
    "marian": "Firefox",
    "litert": "no TensorFlow needed",
}


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The options of exports, each for the formats that hold it."""

    quantization: str | None = option(
        "Store weights so in ctranslate2, argos, marian (int8) or litert (int8, float32).",
        choices=("int8", "int16", "float16", "float32"),
        default_text="int8 for litert, else float32",
    )
    dtype: str = option(
        "Store the weights of a saved_model in this dtype, and compute in it.",
        "float32",
        choices=("float32", "bfloat16", "float16"),
    )
    signatures: str | None = option(
        "Write these signatures of serving_default, greedy, score, align and confidence.",
        default_text="all but confidence",
        metavar="NAMES",
    )
    card: Mapping[str, Any] | None = option(
        "Write this field of the model card, such as license=mit.",
        default_text="what the run knows",
        metavar="KEY=VALUE",
    )


# The names of options, for what formats hold.
SEARCH = (*vars(SearchOptions()), "max_length", "max_length_factor")
SAMPLING = "temperature", "top_k", "top_p", "seed"


@dataclasses.dataclass(frozen=True)
class ModelFormat:
    """An export format: what messages call it, and what it has a place for."""

    title: str
    # The names of options: of the export and of the translator, and `ensemble` and `shortlist`. If
    # none of them is of a search, none is inside, and they are for what searches.
    holds: Collection[str]
    early_stopping: tuple[str | bool, ...] = (True, False, "never", "shrink")
    quantizations: tuple[str, ...] = ()  # Other ways to store weights than float32.
    package: tuple[str, str] | None = None  # That it needs, and the extra that installs it.

    def takes(self, name: str, value: Any) -> bool:
        """True for an option and its value that the format has a place for."""
        return name in self.holds and (name != "early_stopping" or value in self.early_stopping)

    def check(
        self, translator: Any, directory: str | os.PathLike, quantization: str | None = None
    ) -> None:
        """Refuses a folder that exists, and what the format has no place for."""
        check_new(directory)
        if quantization not in (None, *self.quantizations):
            raise InputError(
                f"quantization must be {' or '.join(self.quantizations)} for {self.title}. "
                f"Received: quantization={quantization!r}"
            )
        if self.package is not None:
            require(*self.package, f"Export to {self.title}")
        default, given = vars(TranslationOptions()), vars(translator.options)
        lost = [
            f"{name}={given[name]!r}"
            for name in (SEARCH if {*SEARCH} & {*self.holds} else ())
            if given[name] != default[name] and not self.takes(name, given[name])
        ]
        if len(translator.models) > 1 and "ensemble" not in self.holds:
            lost.append("an ensemble")
        if translator.shortlist is not None and "shortlist" not in self.holds:
            lost.append("a shortlist")
        if lost:
            raise InputError(
                f"An export to {self.title} cannot hold {', '.join(lost)}: leave that out."
            )


def load_format(name: str) -> ModelFormat:
    """The declaration of a format."""
    return importlib.import_module(f"keras_mt.convert.{name}").FORMAT


def export(
    translator: Any, directory: str | os.PathLike, format: str = "saved_model", **options: Any
) -> None:
    """Writes a translator in one of the formats of `keras-mt export`.

    The chapter on pretrained models says what each folder holds. The write is atomic.

    Args:
        translator: A `keras_mt.Translator`.
        directory: The folder to write; of a SavedModel that of a version, for Argos Translate a
            file.
        format: `"saved_model"`, `"ctranslate2"`, `"argos"`, `"huggingface"`, `"marian"`
            or `"litert"`.
        **options: Of a SavedModel those of `Translator.export`. Of others `quantization`: `"int8"`,
            and for CTranslate2 and Argos Translate also `"int16"` and `"float16"`; None for
            float32. For LiteRT it is `"int8"`, the default, or `"float32"`. For LiteRT and Argos
            Translate `card` is as of a SavedModel.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If the format has no place for something in the model, its tokenizer or its
            search, or needs a package that is not installed; the message names it.

    Example:

    >>> translator = keras_mt.Translator.load("runs/en_de")  # doctest: +SKIP
    >>> export(translator, "en_de_ct2", "ctranslate2", quantization="int8")  # doctest: +SKIP
    """
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}. Received: {format=}")
    module = importlib.import_module(f"keras_mt.convert.{format}")
    getattr(module, f"to_{format}")(translator, directory, **options)


# The arguments of a Transformer that must have their defaults, unless a format says otherwise.
_PLAIN = (
    "norm", "gated", "num_key_value_heads", "encoder_sublayers", "decoder_sublayers", "zero_id",
    "normalize_embeddings", "norm_epsilon", "use_bias", "key_dim", "scale_attention",
)  # fmt: skip


def check_model(title: str, model: Any, known: Mapping[str, tuple[Any, ...] | None]) -> None:
    """Refuses all but a Transformer whose arguments are among those `known` (None for any)."""
    from keras_mt.models import Transformer

    if type(model) is not Transformer:
        raise InputError(f"{title} has no {type(model).__name__}, but only a Transformer.")
    config, arguments = model.get_config(), inspect.signature(Transformer.__init__).parameters
    known = {name: (arguments[name].default,) for name in _PLAIN} | known
    foreign = [n for n, values in known.items() if values and config.get(n) not in values]
    if foreign:
        received = " and ".join(f"{name}={config[name]!r}" for name in foreign)
        settings = {name: known[name][0] for name in foreign}
        settings = {n: x if isinstance(x, str) else json.dumps(x) for n, x in settings.items()}
        flags = " ".join(f"--set {name}={value}" for name, value in settings.items())
        raise InputError(f"{title} has no model with {received}: train one with {flags}.")
