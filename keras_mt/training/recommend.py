"""The recipe that fits a corpus."""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_mt.data import has_split
from keras_mt.models import Transformer, find_architecture
from keras_mt.models.transformer import weights_per_token
from keras_mt.options import TrainingOptions
from keras_mt.training.architecture import Run

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
# What a preset does not say.
DEFAULTS = {
    "vocab_size": 8000,
    "epochs": 20,
    "bleu_freq": 0,
    "dtype": "float32",
    "weights": "last",
}
# Characters of a piece.
_PIECE = 4
# The longest length that is told apart, in characters.
_LONGEST = 4096
# What ends a run: one of them.
_ENDS = {"epochs", "steps", "minutes"}
# What goes by BLEU, if that is measured on the way.
_CHOICES = {"weights", "early_stopping_patience", "bleu_freq"}
# Those of values that a corpus alone does not recommend.
_REASONS = {
    "average": "the mean of the last checkpoints, as in the paper",
    "mixed_bfloat16": "the processor multiplies in bfloat16, which is faster",
}


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
        "bleu_freq": (_freq(recipe["epochs"]), "BLEU is measured some twenty times"),
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


def recommend_for(
    corpora: Sequence[tf.data.Dataset], operations: float = math.inf, preset: str | None = None
) -> Recommendation | None:
    """What is recommended for corpora, as `load_corpus` returns them; None if they are empty.

    Args:
        corpora: Datasets of pairs of strings.
        operations, preset: As of `recommend`.

    Example:

    >>> from keras_mt.data import load_corpus
    >>> recommend_for([load_corpus("phrasebook", "pt", "en", "train")]).options["epochs"]
    40
    """
    counts = np.zeros(_LONGEST + 1, np.int64)
    characters, alphabet = 0, np.zeros(0x110000, bool)
    for corpus in corpora:
        for batch in corpus.batch(4096):
            alphabet[tf.strings.unicode_decode(tf.concat(batch, 0), "UTF-8").values] = True
            lengths = np.stack([tf.strings.length(side, "UTF8_CHAR") for side in batch])
            characters += int(lengths.sum())
            counts += np.bincount(np.minimum(lengths.max(0), _LONGEST), minlength=_LONGEST + 1)
    total = int(counts.sum())
    if not total:
        return None
    longest = int(np.searchsorted(np.cumsum(counts), 0.999 * total))
    mean, different = characters / 2 / total, int(alphabet.sum())
    return recommend(total, mean, longest, different, operations, preset)


def recommended_options(run: Run, pairs: Sequence[tf.data.Dataset]) -> dict[str, Any] | None:
    """The options recommended for a run, which it reports; those of a run that was begun stay."""
    options = run.options
    if run.begun is not None:
        return run.begun.recommended
    architecture = find_architecture(options.architecture or "transformer")
    as_preset = options.preset is not None and options.minutes is None
    if options.init is not None or as_preset or architecture is not Transformer:
        return None
    # Text in several directions counts once.
    names = [(data, *sorted(codes)) for data, *codes in run.directions]
    corpora = list(dict(zip(names, pairs, strict=True)).values())
    seconds = 60 * (math.inf if options.minutes is None else options.minutes)
    recommendation = recommend_for(corpora, seconds * _speed(run.strategy), options.preset)
    if recommendation is None:
        return None  # Refused later, by name.
    recommended = recommendation.options
    if not any(has_split(*direction, "validation") for direction in run.measured):
        recommended = _averaging(recommended)
    if _has_bfloat16():
        recommended["dtype"] = "mixed_bfloat16"
    run.report("fitted to the corpus:")
    for name, value in _compatible(recommended, options).items():
        if getattr(options, name) is not None and name != "model":
            continue
        shown = value
        if name == "model":
            shown = " ".join(f"{n}={x}" for n, x in value.items())
        reason = _REASONS.get(shown) or recommendation.reasons[name]
        run.report(f"  {name}: {shown} ({reason})")
    if options.minutes is None:
        run.report("  Give --minutes N for a shorter or longer training.")
    return recommended


def completed(run: Run) -> TrainingOptions:
    """The options of a run, with those that were not given."""
    options = run.options
    if run.recommended is not None:
        options = options.completed(_compatible(run.recommended, options))
    elif options.minutes is not None:
        options = options.completed(_averaging({}))
    ended = any(getattr(options, name) is not None for name in _ENDS)
    return options.completed({n: x for n, x in DEFAULTS.items() if not (ended and n in _ENDS)})


def _speed(strategy):
    """Operations a second, roughly, of all that trains."""
    if tf.config.list_physical_devices("GPU"):
        return _GPU * strategy.num_replicas_in_sync
    return (os.cpu_count() or 1) * (_BFLOAT16_CORE if _has_bfloat16() else _CORE)


def _has_bfloat16():
    """Whether what trains has instructions for products in bfloat16."""
    if gpus := tf.config.list_physical_devices("GPU"):
        details = map(tf.config.experimental.get_device_details, gpus)
        return all(x.get("compute_capability", (0, 0)) >= (8, 0) for x in details)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and re.search("avx512_bf16|amx_bf16", cpuinfo.read_text()) is not None


def _freq(epochs):
    return max(epochs // 20, 1)


def _averaging(recommended):
    """What is recommended where BLEU is not measured on the way."""
    values = {name: value for name, value in recommended.items() if name not in _CHOICES}
    return values | {"weights": "average"}


def _compatible(recommended, options):
    """What is recommended, without what the options that are given rule out."""
    ends = {name for name in _ENDS if getattr(options, name) is not None}
    values = {name: value for name, value in recommended.items() if not (ends and name in _ENDS)}
    epochs = options.epochs or recommended["epochs"]
    bleu_freq = _freq(epochs) if options.bleu_freq is None else options.bleu_freq
    if ends - {"epochs"} or not 0 < bleu_freq <= epochs:
        values = _averaging(values)
    elif "bleu_freq" in values:
        values["bleu_freq"] = bleu_freq
    if options.batch_tokens is not None:
        values["max_length"] = min(values["max_length"], options.batch_tokens)
    elif options.max_length is not None:
        values["batch_tokens"] = max(values["batch_tokens"], options.max_length)
    return values
