"""The recipe that fits a corpus."""

import math
import os
import re
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_mt.models import Transformer
from keras_mt.models.transformer import weights_per_token
from keras_mt.options import TrainingOptions
from keras_mt.options.training import ENDS
from keras_mt.training.distribution import Worker

# Characters of a side up to which a recipe holds, and the recipe, whose size is a preset's. The
# first was measured, in examples/recipes; the others follow what is usual for such corpora.
_RECIPES = (
    (4e5, {"size": "small", "d_ff": 512, "pieces": 2000, "batch": 1024, "epochs": 40}),
    (1.2e6, {"size": "small", "d_ff": 512, "pieces": 4000, "batch": 2048, "epochs": 40}),
    (6e6, {"size": "small", "d_ff": 1024, "pieces": 8000, "batch": 4096, "epochs": 25}),
    (6e7, {"size": "base", "d_ff": 2048, "pieces": 16000, "batch": 8192, "epochs": 20}),
    (np.inf, {"size": "base", "d_ff": 2048, "pieces": 32000, "batch": 25000, "epochs": 10}),
)
# What a training takes that is too short for as many epochs of its corpus's recipe, and the epochs
# up to which it needs little dropout.
_SHORTER = (
    {"size": "small", "d_ff": 1024, "pieces": 8000, "batch": 4096},
    {"size": "tiny", "d_ff": 512, "pieces": 4000, "batch": 2048},
)
_ENOUGH_EPOCHS, _FEW_EPOCHS = 10, 25
# Operations a second, in training: of a core, of one that multiplies in bfloat16, and of a GPU.
# Two cores were measured; a wrong guess makes a model somewhat too large or too small.
_CORE, _BFLOAT16_CORE, _GPU = 2.5e10, 1e11, 2e13
_PIECE = 4  # Characters of a piece.
# The weights to take where BLEU is not measured on the way.
AVERAGED = {"weights": "average"}
_AVERAGED_REASON = "the mean of the last checkpoints, as in the paper"
_BFLOAT16_REASON = "the processor multiplies in bfloat16, which is faster"


class Statistics(NamedTuple):
    """The size of a corpus, as `recommend` takes it."""

    pairs: int
    characters: float
    longest: int
    alphabet: int


def measure(pairs: Iterable[tuple[bytes, bytes]]) -> Statistics:
    """The statistics of sentence pairs in UTF-8, which are read once.

    >>> measure([(b"Oi.", b"Hi!"), (b"O livro.", b"The book.")])
    Statistics(pairs=2, characters=5.75, longest=9, alphabet=15)
    """
    longest, characters, alphabet = array("i"), 0, set()
    for pair in pairs:
        source, target = (text.decode("utf-8", "replace") for text in pair)
        longest.append(max(len(source), len(target)))
        characters += len(source) + len(target)
        alphabet.update(source, target)
    if not longest:
        return Statistics(0, 0.0, 0, 0)
    exceeded = int(np.quantile(longest, 0.999, method="inverted_cdf"))
    return Statistics(len(longest), characters / 2 / len(longest), exceeded, len(alphabet))


class Recommendation(NamedTuple):
    """Options of training, by their names as `train` takes them, and why: a line for each."""

    options: dict[str, Any]
    reasons: dict[str, str]


def recommend(
    pairs: int,
    characters: float,
    longest: int,
    alphabet: int = 0,
    operations: float = math.inf,
    preset: str | None = None,
) -> Recommendation:
    """The options of training a Transformer that fit a corpus.

    `train` takes them where neither a preset without `minutes`, nor `init`, nor another
    architecture says how to train, unless others are given. `examples/recipes` measures recipes by
    BLEU on validation text for an equal time of training.

    Args:
        pairs: Number of sentence pairs.
        characters: The mean length of a side, in characters.
        longest: The length, in characters, that one pair in a thousand exceeds.
        alphabet: Number of different characters, each of which is a piece.
        operations: Number of floating-point operations that the training may take.
        preset: A preset of `Transformer`, whose model is trained; None for a model that fits too.

    Example:

    >>> recommend(3_000, 62, 160).reasons["dropout"]
    'so few sentences are soon learned by heart'
    """
    size = pairs * characters
    recipe, fixed = next(recipe for limit, recipe in _RECIPES if size <= limit), {}
    if preset is not None:
        fixed = {"size": preset, "d_ff": Transformer.presets[preset]["model"]["d_ff"]}
    recipe = recipe | fixed
    dropout = Transformer.presets[recipe["size"]]["model"]["dropout"]
    for changes in _SHORTER:
        pieces = min(recipe["pieces"], changes["pieces"])
        shorter = recipe | changes | fixed | {"pieces": pieces}
        epochs = operations / (size * _operations(recipe))
        if epochs < _ENOUGH_EPOCHS and _operations(shorter) < _operations(recipe):
            recipe = shorter
    epochs = operations / (size * _operations(recipe))
    model = {**Transformer.presets[recipe["size"]]["model"], "d_ff": recipe["d_ff"]}
    model["pre_norm"] = True
    del model["dropout"]
    if few := epochs < _FEW_EPOCHS:
        dropout = 0.1
    max_length = 256
    while max_length < min(longest / 2, 1024):  # A piece has two characters or more, mostly.
        max_length *= 2
    pieces = max(recipe["pieces"], 2 * alphabet)  # Of few characters, most pieces are words.
    in_paper = "as in the paper"
    batch_reason = in_paper if recipe["batch"] == 25000 else "small batches make more updates"
    dropout_reason = in_paper if dropout == 0.1 else "so few sentences are soon learned by heart"
    if few:
        dropout_reason = "so few epochs learn little by heart"
    choices = {
        "model": (model, "pre-norm blocks learn from the first steps"),
        "vocab_size": (pieces, "each piece must occur often enough to be learned"),
        "batch_tokens": (max(recipe["batch"], max_length), batch_reason),
        "max_length": (max_length, "as good as all pairs are shorter"),
        "dropout": (dropout, dropout_reason),
        "label_smoothing": (0.1, in_paper),
        "learning_rate": (0.256 / model["d_model"], "falling to 0 at the end of the run"),
        "warmup_steps": (400, "the rate rises in these steps, a quarter of the run at most"),
        "epochs": (recipe["epochs"], "at most; the learning rate falls over them"),
        "bleu_freq": (_bleu_freq(recipe["epochs"]), "BLEU is measured some twenty times"),
        "weights": ("best", "by BLEU: translations improve when the loss no longer does"),
        "early_stopping_patience": (6, "training ends after as many BLEUs without a better one"),
    }
    if preset is not None:
        del choices["model"]
    return Recommendation(*({n: x[i] for n, x in choices.items()} for i in (0, 1)))


def _operations(recipe):
    """Operations of training on a character of each side: six for each weight that it meets."""
    model = {**Transformer.presets[recipe["size"]]["model"], "d_ff": recipe["d_ff"]}
    return 6 * weights_per_token(recipe["pieces"], **model) / _PIECE


def _bleu_freq(epochs):
    return max(epochs // 20, 1)


def fitted_options(
    given: TrainingOptions,
    statistics: Statistics,
    has_validation: bool,
    worker: Worker,
) -> dict[str, Any]:
    """The options for a corpus and this machine that go with those given; they are reported."""
    seconds = math.inf if given.minutes is None else 60 * given.minutes
    bfloat16 = _has_bfloat16()
    operations = seconds * _speed(worker.strategy, bfloat16)
    recommended, reasons = recommend(*statistics, operations, given.preset)
    values = compatible(recommended, given, has_validation)
    if values["weights"] == "average":
        reasons["weights"] = _AVERAGED_REASON
    if bfloat16:
        values["dtype"], reasons["dtype"] = "mixed_bfloat16", _BFLOAT16_REASON
    worker.report("fitted to the corpus:")
    shown = dict(values)
    if "model" in values:
        shown["model"] = " ".join(f"{n}={x}" for n, x in values["model"].items())
    for name, value in shown.items():
        if name == "model" or getattr(given, name) is None:
            worker.report(f"  {name}: {value} ({reasons[name]})")
    if given.minutes is None:
        worker.report("  Give --minutes N for a shorter or longer training.")
    return values


def compatible(
    recommended: dict[str, Any], given: TrainingOptions, has_validation: bool = True
) -> dict[str, Any]:
    """The recommended options, without those that the given ones rule out."""
    values = dict(recommended)
    epochs = given.epochs or recommended["epochs"]
    bleu_freq = _bleu_freq(epochs) if given.bleu_freq is None else given.bleu_freq
    ends = [name for name in ENDS if getattr(given, name) is not None]
    if ends:
        del values["epochs"]
    if has_validation and ends in ([], ["epochs"]) and 0 < bleu_freq <= epochs:
        values["bleu_freq"] = bleu_freq
    else:
        del values["bleu_freq"], values["early_stopping_patience"]
        values |= AVERAGED
    if given.batch_tokens is not None:
        values["max_length"] = min(values["max_length"], given.batch_tokens)
    elif given.max_length is not None:
        values["batch_tokens"] = max(values["batch_tokens"], given.max_length)
    return values


def _speed(strategy, bfloat16):
    """Operations a second, roughly, of all that trains."""
    if tf.config.list_physical_devices("GPU"):
        return _GPU * strategy.num_replicas_in_sync
    return (os.cpu_count() or 1) * (_BFLOAT16_CORE if bfloat16 else _CORE)


def _has_bfloat16():
    """True if what trains has instructions for products in bfloat16."""
    if gpus := tf.config.list_physical_devices("GPU"):
        details = map(tf.config.experimental.get_device_details, gpus)
        return all(x.get("compute_capability", (0, 0)) >= (8, 0) for x in details)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and re.search("avx512_bf16|amx_bf16", cpuinfo.read_text()) is not None
