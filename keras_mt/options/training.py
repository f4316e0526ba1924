"""The options of training."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_mt.errors import InputError
from keras_mt.options.fields import as_integer, option, validate_all
from keras_mt.options.search import LanguageOptions

_FITTED = "fitted to the corpus; the preset's, or init's"
# The options that say where a run ends: one of them.
ENDS = ("epochs", "steps", "minutes")


@dataclasses.dataclass(frozen=True)
class TrainingOptions(LanguageOptions):
    """The options of training, besides the corpus, the languages and the folder."""

    corpus_weights: Sequence[int] | None = option(
        "How many times an epoch goes through each corpus, in the order of data.",
        default_text="once; with pairs, smaller corpora more often",
        defines_run=True,
        flag="--corpus-weight",
    )
    init: str | os.PathLike | None = option(
        "A run folder to begin from, for fine-tuning: its model, its tokenizer and the "
        "options whose default below names init. An imported model is tuned gently instead: "
        "--learning-rate 5e-5 --warmup-steps 100 --label-smoothing 0, its own dropout and limit.",
        default_text="none",
        defines_run=True,
        metavar="RUN_DIR",
    )
    lora_rank: int | None = option(
        "Train only low-rank adapters (LoRA) of this rank on the dense layers of init's model: "
        "this takes less memory, and checkpoints hold only the adapters. model.keras has them "
        "merged.",
        minimum=1,
        default_text="all weights are trained",
        defines_run=True,
        metavar="RANK",
    )
    architecture: str | type | None = option(
        "The kind of model: transformer, recurrent, mixture_of_experts, decoder_only, "
        "or MODULE:CLASS of your own.",
        default_text="transformer, or init's",
        defines_run=True,
        metavar="NAME",
    )
    preset: str | None = option(
        "The model's size and how it is trained: tiny (4 layers, 128 wide), small (4, 256), base "
        "(6, 512) or big (6, 1024), as in the paper; other architectures have other presets. The "
        "options whose default is the preset's are then the same for every corpus; with minutes, "
        "they are fitted to the corpus and the time.",
        default_text="a transformer is fitted to the corpus; another architecture's first, "
        "or init's",
        defines_run=True,
    )
    model: Mapping[str, Any] | None = option(
        "Other arguments of the model's constructor, by name, such as num_layers.",
        default_text="the preset's",
        defines_run=True,
        flag="--set",
        metavar="KEY=VALUE",
    )
    tokenizer: str | os.PathLike | object | None = option(
        "The tokenizer: a tokenizer.model, a run folder that has one, or, in Python, a Tokenizer.",
        default_text="one trained on the corpus",
        metavar="PATH",
    )
    epochs: int | None = option(
        "Passes over the corpus.", minimum=1, default_text="fitted to the corpus; 20 with a preset"
    )
    steps: int | None = option(
        "Batches to train on, instead of epochs.", minimum=1, default_text="set by epochs"
    )
    minutes: float | None = option(
        "Train for this many minutes on this machine, start-up included, instead of epochs: the "
        "speed of the first steps sets the number of steps.",
        above=0,
        default_text="set by epochs",
        defines_run=True,
    )
    seed: int = option(
        "Seed of the initial weights, of dropout and of the order of the data.",
        1,
        minimum=0,
        below=2**32,
        defines_run=True,
    )
    vocab_size: int | None = option(
        "The maximum size, in pieces, of the joint vocabulary that is trained.",
        default_text="fitted to the corpus; 8000 with a preset",
        defines_run=True,
    )
    max_length: int | None = option(
        "The longest sentence, in tokens, including the end token: longer pairs are left out of "
        "training and counted, and the trained model takes no longer ones.",
        default_text="fitted to the corpus; 256 with a preset, or init's",
        inherited=True,
    )
    clean: bool = option(
        "Train only on pairs that break none of the rules of keras-mt clean, which are counted: "
        "blank lines, duplicates and pairs of unlike lengths, among others, are left out.",
        False,
        defines_run=True,
    )
    subword_sampling: float | None = option(
        "Draw new subword segmentations in each epoch: 1 draws with the unigram model's "
        "probabilities, 0 uniformly.",
        minimum=0,
        default_text="always the most probable one",
        defines_run=True,
    )
    augment: str | None = option(
        "Change sources to resemble what users type: caps (all capitals), title (Title Case), "
        "punctuation (no final period, doubled spaces, other quotes), separated by commas. Each "
        "kind changes a tenth of the pairs in an epoch, other pairs in the next; targets stay as "
        "they are.",
        default_text="sources stay as they are",
        defines_run=True,
        metavar="KINDS",
    )
    batch_tokens: int | None = option(
        "The maximum number of tokens of a batch on each side, including padding.",
        minimum=1,
        default_text=_FITTED,
        inherited=True,
    )
    gradient_accumulation_steps: int | None = option(
        "Number of batches whose gradients make one update.",
        minimum=1,
        default_text="1, or init's",
        inherited=True,
    )
    dropout: float | None = option(
        "Dropout rate.", minimum=0, below=1, default_text=_FITTED, inherited=True
    )
    label_smoothing: float | None = option(
        "Label smoothing: the share of the label that is spread over the vocabulary.",
        minimum=0,
        below=1,
        default_text=_FITTED,
        inherited=True,
    )
    rdrop_weight: float | None = option(
        "Weight of the R-Drop loss, such as 5: it makes two forward passes agree.",
        minimum=0,
        default_text="0, or init's",
        inherited=True,
    )
    guided_alignment: bool | None = option(
        "Teach one attention head to align words, by alignments that are learned from the corpus.",
        default_text="no head is taught",
        defines_run=True,
    )
    terms: float | None = option(
        "Teach the model to use a glossary's terms: the share of sources, such as 0.3, in which "
        "some words carry the target's words for them.",
        minimum=0,
        maximum=1,
        default_text="none",
        defines_run=True,
    )
    warmup_steps: int | None = option(
        "Updates over which the learning rate rises to its peak.",
        minimum=1,
        default_text=_FITTED,
        inherited=True,
    )
    learning_rate: float | None = option(
        "The peak learning rate.",
        above=0,
        default_text="fitted to the corpus; with a preset (d_model * warmup_steps) ** -0.5, "
        "or init's",
        inherited=True,
    )
    clip_norm: float | None = option(
        "Clip the gradients to this global norm.",
        above=0,
        default_text="no clipping, or init's",
        inherited=True,
    )
    dtype: str | None = option(
        "Dtype of the computation; weights are kept in float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        default_text="float32; mixed_bfloat16 if the recipe is fitted and the processor has such "
        "products",
        defines_run=True,
    )
    devices: int | None = option(
        "Number of devices of this machine to train on.", minimum=1, default_text="all GPUs"
    )
    checkpoint_steps: int | None = option(
        "Steps from one checkpoint to the next.",
        minimum=1,
        default_text="a fortieth of the run, 1000 at most, if its rate falls to 0 or its weights "
        "are averaged; else 500",
    )
    bleu_freq: int | None = option(
        "Measure BLEU and chrF on the validation split every so many epochs; 0 for never.",
        minimum=0,
        default_text="fitted to the corpus; 0 with a preset",
    )
    weights: str | None = option(
        "The weights that model.keras takes: best (those with the best BLEU on the validation "
        "split, or with the lowest loss if BLEU is not measured), average (the mean of the last "
        "five checkpoints) or last.",
        choices=("best", "average", "last"),
        default_text="best if the recipe is fitted and measures BLEU, else average; last with a "
        "preset, init or another architecture, unless minutes are given",
        defines_run=True,
    )
    early_stopping_patience: int | None = option(
        "Stop after this many measurements without improvement.",
        minimum=1,
        default_text="fitted to the corpus; never with a preset",
    )
    tensorboard: bool = option(
        "Also write the values of log.csv for TensorBoard, into tensorboard/; to view them, "
        "pip install tensorboard.",
        False,
    )

    def completed(self, *defaults: Mapping[str, Any]) -> "TrainingOptions":
        """These options, with each that is None taken from the first defaults that have it.

        One of `epochs`, `steps` and `minutes` stands for all three; arguments of the `model` are
        completed one by one.
        """
        values = dict(vars(self))
        for more in defaults:
            ended = any(values[name] is not None for name in ENDS)
            for name, value in more.items():
                if name == "model":
                    values["model"] = {**(value or {}), **(values["model"] or {})}
                elif values[name] is None and not (ended and name in ENDS):
                    values[name] = value
        return TrainingOptions(**values)

    def __post_init__(self) -> None:
        for name in ("model", "tokenizer"):
            if self.init is not None and getattr(self, name):
                raise InputError(f"Give `init` or `{name}`, not both: init brings its own {name}.")
        self._take_from_model()
        validate_all(self)
        if self.init is not None:  # The dataclass is frozen.
            object.__setattr__(self, "init", str(Path(self.init)))
        if sum(getattr(self, name) is not None for name in ENDS) > 1:
            raise InputError("Give `epochs`, `steps` or `minutes`, only one of them.")
        if any(as_integer("corpus_weights", weight) < 1 for weight in self.corpus_weights or ()):
            raise InputError(
                f"corpus_weights must be at least 1. Received: {list(self.corpus_weights)}"
            )
        if None not in (self.batch_tokens, self.max_length) and self.batch_tokens < self.max_length:
            raise InputError(
                "batch_tokens must be at least max_length, since a batch holds at least one pair. "
                f"Received: batch_tokens={self.batch_tokens}, max_length={self.max_length}"
            )
        if self.rdrop_weight and self.dropout == 0:
            raise InputError(
                "rdrop_weight needs `dropout`. "
                f"Received: rdrop_weight={self.rdrop_weight}, dropout=0"
            )
        if self.needs_links and self.subword_sampling is not None:
            raise InputError(
                f"{'guided_alignment' if self.guided_alignment else 'terms'} does not go with "
                "subword_sampling, whose pieces are others in each epoch: leave one of them out."
            )
        if self.lora_rank is not None and self.init is None:
            raise InputError(
                "lora_rank needs `init`, the run whose model gets the adapters. "
                f"Received: lora_rank={self.lora_rank}"
            )

    @property
    def needs_links(self) -> bool:
        """True if word alignments are needed, for a guided head or for terms."""
        return bool(self.guided_alignment or self.terms)

    def _take_from_model(self):
        """Moves arguments in `model` that have an option of their own to that option."""
        if not isinstance(self.model or {}, Mapping):
            raise InputError(f"model must be arguments by name, a dict. Received: {self.model!r}")
        model = dict(self.model or {})
        if "padding_id" in model:
            raise InputError("padding_id is the tokenizer's: leave it out of `model`.")
        for name in {"vocab_size", "max_length", "dropout", "dtype"} & model.keys():
            value, option_value = model.pop(name), getattr(self, name)
            if option_value not in (None, value):
                raise InputError(
                    f"{name} was given twice: {option_value!r}, and {value!r} for the model."
                )
            object.__setattr__(self, name, value)
        object.__setattr__(self, "model", model or None)
