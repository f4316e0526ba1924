"""The formats of exports: one table of what each takes, what it needs and what it cannot hold.

A format NAME is written by `to_NAME` in `keras_mt/convert/NAME.py`, and declared here, since the
command shows its options without importing Keras and TensorFlow.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.options import MAX_LINE_BYTES, SearchOptions, check_language
from keras_mt.options.fields import option

# The options of a search, and their defaults.
_SEARCH = {field.name: field.default for field in dataclasses.fields(SearchOptions)}
_SEARCH |= {"max_length": None, "max_length_factor": None}
# What a format without texts does, of the options for texts.
_WITHOUT_TEXTS = {"split_sentences": False, "max_line_bytes": MAX_LINE_BYTES, "keep": "none"}
_LANGUAGES = "source_language", "target_language"


@dataclasses.dataclass(frozen=True)
class Format:
    """An export format: what messages call it, what it takes and what it can hold."""

    title: str  # What messages call it.
    help: str  # What it writes, as the command's help says.
    options: tuple[str, ...] = ()  # Which of `ExportOptions` it takes.
    quantizations: tuple[str, ...] = ()  # How it can store weights, besides float32.
    package: tuple[str, str] | None = None  # That it needs, and the extra that installs it.
    # The options of the search that it holds, and the values of those of which it holds some alone.
    # None if no search is inside: they go to what searches.
    search: Mapping[str, Sequence[Any] | None] | None = None
    # Whether it holds all of a translator: the cutting of texts into lines and sentences, ensembles
    # and sampling.
    whole: bool = False
    shortlists: bool = False  # Whether it holds a shortlist.
    one_pair: bool = False  # Whether it is for one pair of languages, which has to be given.

    def holds(self, name: str, value: Any) -> bool:
        """True for a value of an option of the search that the format can hold."""
        # Without an option of its own, it does what the default says.
        values = (self.search or {}).get(name, (_SEARCH[name],))
        return values is None or value in values

    def check(self, translator: Any, quantization: str | None = None) -> None:
        """Refuses a translator or a quantization that the format cannot hold."""
        if quantization not in (None, *self.quantizations):
            expected = " or ".join(self.quantizations) or "left out"
            raise InputError(
                f"quantization must be {expected} for {self.title}. "
                f"Received: quantization={quantization!r}"
            )
        if self.package is not None:
            require(*self.package, f"Export to {self.title}")
        if len(translator.models) > 1 and not self.whole:
            raise InputError(
                f"{self.title} takes one model, no ensemble: {len(translator.models)} are given."
            )
        if translator.options.samples and not self.whole:
            raise InputError(
                f"An export to {self.title} does not sample: leave `temperature` out. "
                f"Received: temperature={translator.options.temperature}"
            )
        lengths = {n: getattr(translator, n) for n in ("max_length", "max_length_factor")}
        lost = [
            f"{name}={value!r}"
            for name, value in {**dataclasses.asdict(translator.options), **lengths}.items()
            if self.search is not None and value != _SEARCH[name] and not self.holds(name, value)
        ]
        if lost:
            raise InputError(
                f"An export to {self.title} cannot hold {', '.join(lost)}: leave "
                f"{'it' if len(lost) == 1 else 'them'} out."
            )
        if translator.shortlist is not None and not self.shortlists:
            raise InputError(f"An export to {self.title} takes no shortlist: leave it out.")
        if self.one_pair:
            for side in _LANGUAGES:
                check_language(side, getattr(translator, side), translator.languages)


FORMATS = {
    "saved_model": Format(
        "TensorFlow Serving",
        "a SavedModel, from strings to strings",
        options=("dtype", "freeze", "confidence", "signatures", "card", "warmup_texts"),
        search=dict.fromkeys(_SEARCH),
        whole=True,
        shortlists=True,
    ),
    "ctranslate2": Format(
        "CTranslate2",
        "a folder for CTranslate2",
        options=("quantization",),
        quantizations=("int8", "int16", "float16", "bfloat16"),
        package=("ctranslate2", "ctranslate2"),
        shortlists=True,
    ),
    "huggingface": Format(
        "transformers",
        "a folder of MarianMT or Pegasus for transformers",
        search={  # In generation_config.json.
            **dict.fromkeys(("beam_size", "n_best", "length_penalty", "min_length", "max_length")),
            **dict.fromkeys(("repetition_penalty", "no_repeat_ngram_size", "renormalize")),
            "force_end": None,
            "early_stopping": (True, False, "never"),
        },
    ),
    "marian": Format(
        "Marian",
        "a folder for Marian, Bergamot and Firefox",
        options=("quantization",),
        quantizations=("int8",),
        search={  # In decoder.yml.
            **dict.fromkeys(("beam_size", "length_penalty", "word_penalty", "max_length_factor")),
            "early_stopping": ("shrink",),
        },
    ),
    "litert": Format(
        "LiteRT",
        "a model from ids to ids for LiteRT",
        options=("quantization",),
        quantizations=("int8",),
        search=dict.fromkeys(_SEARCH),
        one_pair=True,
    ),
    "onnx": Format(
        "ONNX", "encoder and decoder step for ONNX", package=("tf2onnx", "onnx"), one_pair=True
    ),
}


# The arguments of a Transformer for which formats know no other value, unless they say so.
_PLAIN = {
    "norm": "layer",
    "gated": False,
    "num_key_value_heads": None,
    "encoder_sublayers": None,
    "decoder_sublayers": None,
    "normalize_embeddings": False,
    "norm_epsilon": 1e-5,
    "zero_id": None,
    "use_bias": True,
    "key_dim": None,
    "scale_attention": True,
    "num_experts": None,
}


def check_model(
    title: str, config: Mapping[str, Any], known: Mapping[str, tuple[Any, ...] | None]
) -> None:
    """Refuses a model whose arguments are not among those `known` (None for all values)."""
    known = {name: (value,) for name, value in _PLAIN.items()} | known
    foreign = [n for n, values in known.items() if values and config.get(n) not in values]
    if not foreign:
        return
    received = " and ".join(f"{name}={config[name]!r}" for name in foreign)
    settings = {name: known[name][0] for name in foreign}
    given = [
        f"--set {name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in settings.items()
        if value is not None
    ]
    without = [name for name, value in settings.items() if value is None]
    how = [f"with {' '.join(given)}"] * bool(given)
    how += [f"without {', '.join(without)}"] * bool(without)
    raise InputError(f"{title} has no model with {received}: train one {' and '.join(how)}.")


def _takers(name):
    return " or ".join(format for format, takes in FORMATS.items() if name in takes.options)


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The options of all formats, each for those that have it in their `options`."""

    quantization: str | None = option(
        f"How {_takers('quantization')} stores the weights; LiteRT and Marian take int8 alone.",
        choices=FORMATS["ctranslate2"].quantizations,
        shown="float32",
    )
    dtype: str = option(
        f"Dtype of the weights and of the computation of a {_takers('dtype')}.",
        "float32",
        choices=("float32", "bfloat16", "float16"),
    )
    freeze: bool = option(
        "Write the weights as constants: faster, above all with bfloat16 and small batches, but "
        "takes more memory.",
        False,
    )
    confidence: bool = option(
        "Also write a signature `confidence`: translations with measures of confidence.", False
    )
    signatures: str | None = option(
        "Write only these signatures, with commas between: serving_default, and others of greedy, "
        "score, align and confidence.",
        shown="all but confidence",
        metavar="NAMES",
    )
    card: Mapping[str, Any] | None = option(
        "JSON object with fields for the model card, such as license.",
        shown="what the run knows",
        metavar="FILE",
    )
    warmup_texts: list[str] | None = option(
        "Sentences, one per line, for the warm-up requests.",
        shown="the tokenizer's words",
        metavar="FILE",
    )


def check_options(name: str, given: Mapping[str, Any]) -> None:
    """Refuses options of the export and of the translator that a format does not take."""
    reasons = {option: _reason_against(option, given[option], FORMATS[name]) for option in given}
    wrong = []
    for why in dict.fromkeys(filter(None, reasons.values())):
        flags = [f"--{n.replace('_', '-')}" for n, reason in reasons.items() if reason == why]
        it = "it" if len(flags) == 1 else "them"
        wrong.append(f"leave {', '.join(flags)} out: --format {name} {why.format(it)}")
    if wrong:
        raise InputError("; ".join(wrong) + ".")


def _reason_against(option, value, takes):
    """The reason why a format does not take a value of an option; None if it does."""
    if option in ExportOptions.__dataclass_fields__ and option not in takes.options:
        return "does not take {}"
    if option in _SEARCH and not takes.holds(option, value):
        inside = takes.search is not None
        return "cannot hold {}" if inside else "has no search inside: give {} to what searches"
    if option in _WITHOUT_TEXTS and not takes.whole and value != _WITHOUT_TEXTS[option]:
        return "takes no texts"
    if option in _LANGUAGES and not (takes.whole or takes.one_pair):
        return "takes no languages"
    return None
