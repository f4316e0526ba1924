"""The options of training."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_mt.errors import InputError
from keras_mt.options.fields import as_kinds, option, validate_all
from keras_mt.options.search import LanguageOptions

# The kinds of changes that make sources resemble what users type.
AUGMENTATIONS = "caps", "title", "punctuation"
_FITTED = "fitted to the corpus; the preset's or init's"
# The options that say where a run ends: one of them.
ENDS = ("epochs", "steps", "minutes")
# The options that may differ when a run is resumed.
MAY_CHANGE = (
    "tokenizer", "epochs", "steps", "devices", "checkpoint_steps", "bleu_freq", "stop_after",
    "tensorboard",
)  # fmt: skip
# The options that are taken over from the run that `init` names.
INHERITED = (
    "source_language", "target_language", "max_length", "batch_tokens",
    "gradient_accumulation_steps", "dropout", "label_smoothing", "rdrop_weight", "warmup_steps",
    "learning_rate", "clip_norm",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TrainingOptions(LanguageOptions):
    """The options of training, besides the corpus, the languages and the folder."""

    corpus_weights: Sequence[int] | None = option(
        "Repeat a corpus this many times in an epoch: one weight for each corpus, in their order.",
        default_text="once; with pairs, smaller corpora more often",
        flag="--corpus-weight",
    )
    init: str | os.PathLike | None = option(
        "Fine-tune this run, with its tokenizer and options.", metavar="RUN"
    )
    lora_rank: int | None = option(
        "Train only low-rank adapters (LoRA) of this rank, on the model of init.",
        minimum=1,
        default_text="all weights are trained",
    )
    architecture: str | type | None = option(
        "Train this kind of model: transformer, recurrent, mixture_of_experts, decoder_only, or "
        "MODULE:CLASS of your own.",
        default_text="transformer, or init's",
        metavar="NAME",
    )
    preset: str | None = option(
        "Train a model of this size: tiny, small, base or big.",
        default_text="fitted to the corpus; init's; another architecture's first",
        metavar="NAME",
    )
    model: Mapping[str, Any] | None = option(
        "Set an argument of the model's constructor, such as num_layers=3.",
        default_text="the preset's",
        flag="--set",
        metavar="KEY=VALUE",
    )
    tokenizer: str | os.PathLike | object | None = option(
        "Use this tokenizer.model, or that of this run.",
        default_text="one trained on the corpus",
        metavar="PATH",
    )
    epochs: int | None = option(
        "Go through the corpus this many times.",
        minimum=1,
        default_text="fitted to the corpus; 20 with a preset",
    )
    steps: int | None = option(
        "Train on this many batches, instead of epochs.", minimum=1, default_text="set by epochs"
    )
    minutes: float | None = option(
        "Train for this many minutes, instead of epochs.", above=0, default_text="set by epochs"
    )
    seed: int = option(
        "Draw initial weights, dropout and the order of the data from this seed.",
        1,
        minimum=0,
        below=2**32,
    )
    vocab_size: int | None = option(
        "Train a joint vocabulary of at most this many pieces.",
        default_text="fitted to the corpus; 8000 with a preset",
    )
    max_length: int | None = option(
        "Leave out pairs with a side of more tokens; it is the model's limit, too.",
        default_text="fitted to the corpus; 256 with a preset, or init's",
    )
    clean: bool = option("Leave out pairs that break a rule of `keras-mt clean`.", False)
    subword_sampling: float | None = option(
        "Segment words anew in each epoch: by probability (1) or uniformly (0).",
        minimum=0,
        default_text="always the most probable way",
    )
    augment: str | None = option(
        f"Change some sources as users type: {', '.join(AUGMENTATIONS)}, with commas between.",
        metavar="KINDS",
    )
    batch_tokens: int | None = option(
        "Fill batches with at most this many tokens a side, padding included.",
        minimum=1,
        default_text=_FITTED,
    )
    gradient_accumulation_steps: int | None = option(
        "Make one update of the gradients of this many batches.",
        minimum=1,
        default_text="1, or init's",
    )
    dropout: float | None = option(
        "Drop this share of activations.", minimum=0, below=1, default_text=_FITTED
    )
    label_smoothing: float | None = option(
        "Spread this share of each label over the vocabulary.",
        minimum=0,
        below=1,
        default_text=_FITTED,
    )
    rdrop_weight: float | None = option(
        "Add the R-Drop loss with this weight, such as 5.", minimum=0, default_text="0, or init's"
    )
    guided_alignment: bool | None = option(
        "Teach one attention head to align words.", default_text="no"
    )
    terms: float | None = option(
        "Teach the model to follow glossaries, by terms in this share of the sources, such as 0.3.",
        minimum=0,
        maximum=1,
    )
    warmup_steps: int | None = option(
        "Raise the learning rate over this many updates.", minimum=1, default_text=_FITTED
    )
    learning_rate: float | None = option(
        "Raise the learning rate to this peak.",
        above=0,
        default_text="fitted to the corpus; with a preset (d_model * warmup_steps) ** -0.5, "
        "or init's",
    )
    clip_norm: float | None = option(
        "Clip the gradients to this global norm.", above=0, default_text="no clipping, or init's"
    )
    dtype: str | None = option(
        "Compute in this dtype; weights stay float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        default_text="float32; mixed_bfloat16 in a fitted recipe where the processor has it",
    )
    devices: int | None = option(
        "Train on this many devices of this machine.", minimum=1, default_text="all GPUs"
    )
    checkpoint_steps: int | None = option(
        "Write a checkpoint every so many steps.",
        minimum=1,
        default_text="500; if the rate falls to 0 or weights are averaged, a fortieth of the run, "
        "1000 at most",
    )
    bleu_freq: int | None = option(
        "Measure BLEU and chrF on the validation split every so many epochs; 0 for never.",
        minimum=0,
        default_text="fitted to the corpus; 0 with a preset",
    )
    weights: str | None = option(
        "Keep the weights of best BLEU or loss, the average of five checkpoints, or the last.",
        choices=("best", "average", "last"),
        default_text="best if a fitted recipe measures BLEU, else average; last with a preset, "
        "init or another architecture",
    )
    stop_after: int | None = option(
        "Stop after this many measurements without improvement.",
        minimum=1,
        default_text="fitted to the corpus; never with a preset",
    )
    tensorboard: bool = option("Write the values of log.csv for TensorBoard, too.", False)

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
        if self.augment is not None:
            as_kinds("augment", self.augment, AUGMENTATIONS)
        if self.init is not None:  # The dataclass is frozen.
            object.__setattr__(self, "init", str(Path(self.init)))
        if sum(getattr(self, name) is not None for name in ENDS) > 1:
            raise InputError("Give `epochs`, `steps` or `minutes`, only one of them.")
        if None not in (self.batch_tokens, self.max_length) and self.batch_tokens < self.max_length:
            raise InputError(
                f"batch_tokens={self.batch_tokens} must be at least max_length={self.max_length}."
            )
        if self.rdrop_weight and self.dropout == 0:
            raise InputError(f"rdrop_weight={self.rdrop_weight} needs `dropout` above 0.")
        if self.needs_links and self.subword_sampling is not None:
            raise InputError(
                f"{'guided_alignment' if self.guided_alignment else 'terms'} does not go with "
                "subword_sampling, whose pieces are others in each epoch: leave one of them out."
            )
        if self.lora_rank is not None and self.init is None:
            raise InputError("lora_rank needs `init`, the run whose model gets the adapters.")

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
