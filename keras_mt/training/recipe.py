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
from keras_mt.training.architecture import preset_of
from keras_mt.training.distribution import Worker

_PIECE = 4  # Characters of a piece.


class _Recipe(NamedTuple):
    preset: str
    d_ff: int
    pieces: int
    batch_tokens: int
    epochs: int

    @property
    def model(self):
        return {**Transformer.presets[self.preset]["model"], "d_ff": self.d_ff}

    @property
    def operations(self):
        """Those of training on a character of each side: six for each weight that it meets."""
        return 6 * weights_per_token(self.pieces, **self.model) / _PIECE


# Characters of a side up to which a recipe holds, and the recipe. The first was measured, in
# examples/recipes; the others follow what is usual for such corpora.
_RECIPES = (
    (4e5, _Recipe("small", 512, 2000, 1024, 40)),
    (1.2e6, _Recipe("small", 512, 4000, 2048, 40)),
    (6e6, _Recipe("small", 1024, 8000, 4096, 25)),
    (6e7, _Recipe("base", 2048, 16000, 8192, 20)),
    (np.inf, _Recipe("base", 2048, 32000, 25000, 10)),
)
# What a training takes that is too short for as many epochs of its corpus's recipe, and the epochs
# up to which it needs little dropout.
_SHORTER = (_Recipe("small", 1024, 8000, 4096, 0), _Recipe("tiny", 512, 4000, 2048, 0))
_ENOUGH_EPOCHS, _FEW_EPOCHS = 10, 25
# Operations a second, in training: of a core, of one that multiplies in bfloat16, and of a GPU.
# Two cores were measured; a wrong guess makes a model somewhat too large or too small.
_CORE, _BFLOAT16_CORE, _GPU = 2.5e10, 1e11, 2e13


class Statistics(NamedTuple):
    """The size of a corpus."""

    pairs: int
    characters: float  # The mean length of a side.
    longest: int  # The length, in characters, that one pair in a thousand exceeds.
    alphabet: int = 0  # Number of different characters, each of which is a piece.


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
    exceeded = int(np.quantile(longest, 0.999, method="inverted_cdf"))
    return Statistics(len(longest), characters / 2 / len(longest), exceeded, len(alphabet))


def recommend(
    statistics: Statistics,
    given: TrainingOptions | None = None,
    validated: bool = True,
    operations: float = math.inf,
) -> dict[str, tuple[Any, str]]:
    """The options of training a Transformer that fit a corpus and those given, and why.

    `operations` is the number of floating-point operations that the training may take.

    >>> recommend(Statistics(3_000, 62, 160))["dropout"]
    (0.3, 'so few sentences are soon learned by heart')
    """
    given = given or TrainingOptions()
    recipe, dropout, epochs = _recipe(statistics, given.preset, operations)
    model = {**recipe.model, "pre_norm": True}
    del model["dropout"]
    max_length = 256
    while max_length < min(statistics.longest / 2, 1024):  # A piece has two characters or more.
        max_length *= 2
    batch_tokens = max(recipe.batch_tokens, given.max_length or max_length)
    max_length = min(max_length, given.batch_tokens or max_length)
    pieces = max(recipe.pieces, 2 * statistics.alphabet)  # Of few characters, most are words.
    dropout_reason = batch_reason = in_paper = "as in the paper"
    if epochs < _FEW_EPOCHS:
        dropout, dropout_reason = 0.1, "so few epochs learn little by heart"
    elif dropout > 0.1:
        dropout_reason = "so few sentences are soon learned by heart"
    if recipe.batch_tokens < 25000:
        batch_reason = "small batches make more updates"
    choices = {
        "model": (model, "pre-norm blocks learn from the first steps"),
        "vocab_size": (pieces, "each piece must occur often enough to be learned"),
        "batch_tokens": (batch_tokens, batch_reason),
        "max_length": (max_length, "as good as all pairs are shorter"),
        "dropout": (dropout, dropout_reason),
        "label_smoothing": (0.1, in_paper),
        "learning_rate": (0.256 / model["d_model"], "falling to 0 at the end of the run"),
        "warmup_steps": (400, "the rate rises in these steps, a quarter of the run at most"),
        "epochs": (recipe.epochs, "at most; the learning rate falls over them"),
        "weights": ("average", "the mean of the last checkpoints, as in the paper"),
    }
    if given.preset is not None:
        del choices["model"]
    if given.steps is not None or given.minutes is not None:
        del choices["epochs"]
        return choices
    epochs = given.epochs or recipe.epochs
    bleu_freq = max(epochs // 20, 1) if given.bleu_freq is None else given.bleu_freq
    if validated and 0 < bleu_freq <= epochs:
        choices |= {
            "bleu_freq": (bleu_freq, "BLEU is measured some twenty times"),
            "weights": ("best", "by BLEU: translations improve when the loss no longer does"),
            "stop_after": (6, "training ends after as many BLEUs without a better one"),
        }
    return choices


def _recipe(statistics, preset, operations):
    """The recipe, its dropout, and the number of epochs that the operations are enough for."""
    size, fixed = statistics.pairs * statistics.characters, {}
    if preset is not None:
        fixed = {"preset": preset, "d_ff": preset_of(Transformer, preset)[1]["model"]["d_ff"]}
    recipe = next(recipe for limit, recipe in _RECIPES if size <= limit)._replace(**fixed)
    dropout = recipe.model["dropout"]
    for shorter in _SHORTER:
        pieces = min(recipe.pieces, shorter.pieces)
        candidate = shorter._replace(pieces=pieces, epochs=recipe.epochs, **fixed)
        too_long = operations < _ENOUGH_EPOCHS * size * recipe.operations
        if too_long and candidate.operations < recipe.operations:
            recipe = candidate
    return recipe, dropout, operations / (size * recipe.operations)


def fitted_options(
    given: TrainingOptions, statistics: Statistics, validated: bool, worker: Worker
) -> dict[str, Any]:
    """The options for a corpus and this machine that go with those given; they are reported."""
    speed, bfloat16 = _speed(worker.strategy)
    seconds = math.inf if given.minutes is None else 60 * given.minutes
    choices = recommend(statistics, given, validated, seconds * speed)
    if bfloat16:
        reason = "the processor multiplies in bfloat16, which is faster"
        choices["dtype"] = "mixed_bfloat16", reason
    worker.report("fitted to the corpus:")
    for name, (value, reason) in choices.items():
        shown = value
        if name == "model":
            shown = " ".join(f"{n}={x}" for n, x in value.items())
        if name == "model" or getattr(given, name) is None:
            worker.report(f"  {name}: {shown} ({reason})")
    if given.minutes is None:
        worker.report("  Give --minutes N for a shorter or longer training.")
    return {name: value for name, (value, _) in choices.items()}


def _speed(strategy):
    """Operations a second, roughly, of all that trains; and whether it multiplies in bfloat16."""
    if gpus := tf.config.list_physical_devices("GPU"):
        details = map(tf.config.experimental.get_device_details, gpus)
        bfloat16 = all(x.get("compute_capability", (0, 0)) >= (8, 0) for x in details)
        return _GPU * strategy.num_replicas_in_sync, bfloat16
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    bfloat16 = re.search("avx512_bf16|amx_bf16", flags) is not None
    return (os.cpu_count() or 1) * (_BFLOAT16_CORE if bfloat16 else _CORE), bfloat16
