"""The options of training and of search, each declared once for the command, Python and the docs.

This file imports neither keras nor tensorflow, so that the command's help appears at once.
"""

import dataclasses
import difflib
import inspect
import math
import operator
import os
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from keras_mt.errors import InputError

# The length of a long text to a higher power overflows float32.
MAX_LENGTH_PENALTY = 5.0
# The longest line that a translator takes unless told otherwise: some 2,700 words of English.
MAX_LINE_BYTES = 2**14
# How CTranslate2 can store weights, besides float32.
QUANTIZATIONS = ("int8", "int16", "float16", "bfloat16")

_Thing = TypeVar("_Thing", bound=Callable)


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    most: float | None = None,
    choices: Sequence[str | bool] | Callable[[], Sequence[str]] | None = None,
    shown: str | None = None,
    kept: str | None = None,
    recipe: bool = False,
    flag: str | None = None,
    metavar: str | None = None,
) -> Any:
    """A field of a dataclass of options.

    Args:
        default: Its value unless given.
        help: What it is, a sentence or two.
        least: The least value allowed.
        above: An exclusive lower bound.
        below: An exclusive upper bound.
        most: The greatest value allowed.
        choices: The values allowed, or a function that returns them, which is called only for a
            value other than the default.
        shown: How the help describes the default, where that is None.
        kept: Its name in a run's config.json, for an option that defines the run and must stay the
            same when the run is resumed; None for one that may change.
        recipe: Whether it belongs to the recipe that a run takes over from its `init`.
        flag: The command's flag, where it is not made from the name.
        metavar: The command's placeholder for its value.

    Returns:
        A `dataclasses.Field` with these arguments, but for `default`, as its `metadata`.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    return dataclasses.field(default=default, metadata=metadata)


def kind(field: dataclasses.Field) -> Any:
    """The type of an option, without None."""
    if not isinstance(field.type, types.UnionType):
        return field.type
    return next(part for part in typing.get_args(field.type) if part is not types.NoneType)


def checked(field: dataclasses.Field, value: Any) -> Any:
    """The value converted to the option's type; ValueError, which names it, if it is invalid."""
    name, checks = field.name, field.metadata
    if value is None and (field.default is None or types.NoneType in typing.get_args(field.type)):
        return None
    if kind(field) is int:
        value = as_integer(name, value)
    elif kind(field) is float:
        value = _as_number(name, value)
    elif kind(field) is bool and not isinstance(value, bool):
        raise InputError(f"{name} must be True or False. Received: {name}={value!r}")
    bounds = [
        (f"at least {checks['least']}", checks["least"], operator.ge),
        (f"above {checks['above']}", checks["above"], operator.gt),
        (f"below {checks['below']}", checks["below"], operator.lt),
        (f"at most {checks['most']}", checks["most"], operator.le),
    ]
    bounds = [bound for bound in bounds if bound[1] is not None]
    if not all(fits(value, bound) for _, bound, fits in bounds):
        expected = " and ".join(words for words, *_ in bounds)
        raise InputError(f"{name} must be {expected}. Received: {name}={value}")
    choices = checks["choices"]
    if choices is not None and value != field.default:
        choices = list(choices() if callable(choices) else choices)
        if value not in choices:
            raise InputError(
                f"{name} must be one of {', '.join(map(str, choices))}. Received: {name}={value!r}"
            )
        value = choices[choices.index(value)]  # True for 1.
    return value


def as_integer(name: str, value: Any) -> int:
    """An int from an integer of any type; ValueError, which names it, for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer. Received: {name}={value!r}") from None


def _as_number(name, value):
    try:
        if isinstance(value, str):
            raise TypeError
        number = float(value)
    except (TypeError, OverflowError):
        raise InputError(f"{name} must be a number. Received: {name}={value!r}") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite. Received: {name}={value}")
    return number


def documented(thing: _Thing, options: type | None = None) -> _Thing:
    """Fills in `{options}` in a docstring: one entry of `Args` for each option."""
    lines = []
    for field in dataclasses.fields(options or thing):
        shown = field.metadata["shown"]
        text = field.metadata["help"] + (f" None: {shown}." if shown else "")
        lines += textwrap.wrap(
            f"{field.name}: {text}", 92, initial_indent=" " * 4, subsequent_indent=" " * 8
        )
    # Python 3.13 has removed the indentation already.
    thing.__doc__ = inspect.cleandoc(thing.__doc__).replace("    {options}", "\n".join(lines))
    return thing


def signature(function: Callable, options: type) -> inspect.Signature:
    """The signature of a function whose `**options` are those of a dataclass."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field.type,
            )
            for field in dataclasses.fields(options)
        ]
    return inspect.Signature(parameters)


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: `; did you mean ...?`, or the list of known names."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(names)}."


def _bleu_tokenizers():
    import sacrebleu

    return sacrebleu.BLEU.TOKENIZERS


def check_bleu_tokenizer(name: str) -> None:
    """Raises InputError if a tokenizer of sacreBLEU needs what is not installed.

    Example:

    >>> check_bleu_tokenizer("13a")
    """
    import sacrebleu

    try:
        sacrebleu.BLEU(tokenize=name)
    except (ImportError, RuntimeError, OSError) as error:
        raise InputError(f"sacreBLEU's tokenizer {name}: {' '.join(str(error).split())}") from error


@dataclasses.dataclass(frozen=True)
class LanguageOptions:
    """The languages that a multilingual model translates between."""

    source_language: str | None = option(
        None,
        "The source's language, for a multilingual model: one of its codes, such as eng_Latn.",
        shown="the run's, if it has one",
        kept="source_language",
        recipe=True,
        metavar="CODE",
    )
    target_language: str | None = option(
        None,
        "The target's language, likewise.",
        shown="the run's, if it has one",
        kept="target_language",
        recipe=True,
        metavar="CODE",
    )


@documented
@dataclasses.dataclass(frozen=True)
class TrainingOptions(LanguageOptions):
    """The options of training, besides the corpus, the languages and the folder.

    Args:
        {options}

    Raises:
        TypeError: If a name is not an option.
        ValueError: If an option's value is invalid, or two options exclude each other.

    Example:

    >>> TrainingOptions(preset="base", epochs=3).epochs
    3
    """

    weights: Sequence[int] | None = option(
        None,
        "How many times an epoch goes through each corpus, in the order of data.",
        shown="once",
        kept="weights",
        flag="--weight",
    )
    init: str | os.PathLike | None = option(
        None,
        "A run folder to begin from, for fine-tuning: its model, its tokenizer and its recipe "
        "(the options whose default below names init).",
        shown="none",
        kept="init",
        metavar="RUN_DIR",
    )
    lora: int | None = option(
        None,
        "Train only low-rank adapters (LoRA) of this rank on the dense layers of init's model: "
        "this takes less memory, and checkpoints hold only the adapters. model.keras has them "
        "merged.",
        least=1,
        shown="all weights are trained",
        kept="lora",
        metavar="RANK",
    )
    architecture: str | type | None = option(
        None,
        "The kind of model: transformer, recurrent, mixture_of_experts, decoder_only, pretrained, "
        "or MODULE:CLASS of your own.",
        shown="transformer, or init's",
        kept="architecture",
        metavar="NAME",
    )
    preset: str | None = option(
        None,
        "The model's size and recipe: tiny (4 layers, 128 wide) or small (4, 256), for small "
        "corpora, base (6, 512) or big (6, 1024); other architectures have other presets.",
        shown="tiny, or init's",
        kept="preset",
    )
    model: Mapping[str, Any] | None = option(
        None,
        "Other arguments of the model's constructor, by name, such as num_layers.",
        shown="the preset's",
        kept="set",
        flag="--set",
        metavar="KEY=VALUE",
    )
    tokenizer: str | os.PathLike | object | None = option(
        None,
        "The tokenizer: a tokenizer.model, a run folder that has one, or, in Python, a Tokenizer.",
        shown="one trained on the corpus",
        metavar="PATH",
    )
    epochs: int | None = option(
        None, "Passes over the corpus.", least=1, shown="20, unless steps is given"
    )
    steps: int | None = option(
        None, "Batches to train on, instead of epochs.", least=1, shown="set by epochs"
    )
    seed: int = option(
        1,
        "Seed of the initial weights, of dropout and of the order of the data.",
        least=0,
        below=2**32,
        kept="seed",
    )
    vocab_size: int = option(
        8000,
        "The maximum size, in pieces, of the joint vocabulary that is trained.",
        kept="vocab_size",
    )
    max_length: int | None = option(
        None,
        "The longest sentence, in tokens, including the end token: longer pairs are left out of "
        "training and counted, and the trained model takes no longer ones.",
        shown="256, or init's",
        kept="max_length",
        recipe=True,
    )
    max_ratio: float | None = option(
        None,
        "Leave out pairs with one side more than this many times as long as the other, in tokens.",
        least=1,
        shown="none is left out",
        kept="max_ratio",
    )
    deduplicate: bool = option(
        False,
        "Leave out every pair that repeats an earlier pair of its corpus.",
        kept="deduplicate",
    )
    subword_sampling: float | None = option(
        None,
        "Draw new subword segmentations in each epoch: 1 draws with the unigram model's "
        "probabilities, 0 uniformly.",
        least=0,
        shown="always the most probable one",
        kept="subword_sampling",
    )
    augment: str | None = option(
        None,
        "Change sources to resemble what users type: caps (all capitals), title (Title Case), "
        "punctuation (no final period, doubled spaces, other quotes), separated by commas. Each "
        "kind changes a tenth of the pairs in an epoch, other pairs in the next; targets stay as "
        "they are.",
        shown="sources stay as they are",
        kept="augment",
        metavar="KINDS",
    )
    batch_tokens: int | None = option(
        None,
        "The maximum number of tokens of a batch on each side, including padding.",
        least=1,
        shown="the preset's, or init's",
        kept="batch_tokens",
        recipe=True,
    )
    accumulate: int | None = option(
        None,
        "Number of batches whose gradients make one update.",
        least=1,
        shown="1, or init's",
        kept="accumulate",
        recipe=True,
    )
    dropout: float | None = option(
        None,
        "Dropout rate.",
        least=0,
        below=1,
        shown="the preset's, or init's",
        kept="dropout",
        recipe=True,
    )
    label_smoothing: float | None = option(
        None,
        "Label smoothing: the share of the label that is spread over the vocabulary.",
        least=0,
        below=1,
        shown="the preset's, or init's",
        kept="label_smoothing",
        recipe=True,
    )
    rdrop: float | None = option(
        None,
        "Weight of the R-Drop loss, such as 5: it makes two forward passes agree.",
        least=0,
        shown="0, or init's",
        kept="rdrop",
        recipe=True,
    )
    warmup_steps: int | None = option(
        None,
        "Updates over which the learning rate rises to its peak.",
        least=1,
        shown="the preset's, or init's",
        kept="warmup_steps",
        recipe=True,
    )
    learning_rate: float | None = option(
        None,
        "The peak learning rate.",
        above=0,
        shown="the paper's, (d_model * warmup_steps) ** -0.5, or init's",
        kept="learning_rate",
        recipe=True,
    )
    clip_norm: float | None = option(
        None,
        "Clip the gradients to this global norm.",
        above=0,
        shown="no clipping, or init's",
        kept="clip_norm",
        recipe=True,
    )
    dtype: str = option(
        "float32",
        "Dtype of the computation; weights are kept in float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        kept="dtype",
    )
    devices: int | None = option(
        None, "Number of devices of this machine to train on.", least=1, shown="all GPUs"
    )
    checkpoint_steps: int = option(500, "Steps from one checkpoint to the next.", least=1)
    keep: int = option(5, "Number of last checkpoints to keep.", least=1)
    average: int = option(
        1,
        "Write the average of this many last checkpoints, at most keep, into model.keras, "
        "as Vaswani et al. 2017 do with 5.",
        least=1,
    )
    bleu_epochs: int = option(
        0,
        "Measure BLEU and chrF on the validation split every so many epochs; 0 for never.",
        least=0,
    )
    bleu_tokenize: str = option(
        "13a",
        "sacreBLEU's tokenizer; none for text that is tokenized already.",
        choices=_bleu_tokenizers,
    )
    monitor: str = option(
        "val_loss",
        "The metric that keep_best and early_stopping watch.",
        choices=("val_loss", "val_bleu"),
        kept="monitor",
    )
    keep_best: bool = option(
        False, "Write the best weights into model.keras, not the last ones.", kept="keep_best"
    )
    early_stopping: int | None = option(
        None, "Stop after this many measurements without improvement.", least=1, shown="never"
    )
    tensorboard: bool = option(
        False,
        "Also write the values of log.csv for TensorBoard, into tensorboard/; needs pip install "
        "'keras_mt[tensorboard]'.",
    )

    @classmethod
    def of(cls, caller: str, options: Mapping[str, Any]) -> "TrainingOptions":
        """The options given to the function `caller`, which the error for an unknown one names."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in names:
                raise TypeError(f"{caller}() has no option {name!r}{nearest(name, names)}")
        return cls(**options)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            # The dataclass is frozen.
            object.__setattr__(self, field.name, checked(field, getattr(self, field.name)))
        if self.epochs is not None and self.steps is not None:
            raise InputError("Give epochs or steps, not both.")
        if self.average > self.keep:
            raise InputError(
                f"average must be from 1 to keep. Received: average={self.average}, "
                f"keep={self.keep}"
            )
        if self.keep_best and self.average > 1:
            raise InputError(
                "keep_best writes the weights of a single checkpoint: leave average at 1."
            )
        if self.monitor == "val_bleu" and not self.bleu_epochs:
            raise InputError("monitor=val_bleu needs bleu_epochs: how often to measure BLEU.")
        if self.init is not None and self.tokenizer is not None:
            raise InputError("Give init or tokenizer, not both: init brings its own tokenizer.")
        if self.lora is not None and self.init is None:
            raise InputError(
                "lora needs init, the run whose model gets the adapters. "
                f"Received: lora={self.lora}"
            )
        if self.init is not None and self.model:
            raise InputError("Give init or model (--set), not both: init brings its own model.")
        self._take_from_model()

    def _take_from_model(self):
        """Moves arguments in `model` that have an option of their own to that option."""
        model = dict(self.model or {})
        for field in dataclasses.fields(self):
            if field.name not in ("max_length", "dropout", "dtype") or field.name not in model:
                continue
            value, own = checked(field, model.pop(field.name)), getattr(self, field.name)
            if own not in (field.default, value):
                raise InputError(
                    f"{field.name} was given twice: {own!r}, and {value!r} for the model."
                )
            object.__setattr__(self, field.name, value)
        object.__setattr__(self, "model", model or None)


@documented
@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Options of `beam_search`, and of everything that translates.

    Args:
        {options}

    Raises:
        ValueError: If an option is out of range, or not an integer where its type is int; if
            `n_best` is above `beam_size`; or if options exclude each other: `beam_size` goes
            without `temperature`, `top_k` and `top_p` go with it, and `patience` goes with
            `early_stopping=True`.

    Reference:
        Early stopping: as in transformers' `generate`; patience: Kasai et al. 2022, A Call for
        Clarity in Beam Search (https://arxiv.org/abs/2204.05424), as in CTranslate2; repetition
        penalty: Keskar et al. 2019, CTRL (https://arxiv.org/abs/1909.05858), on log-probabilities;
        top-p: Holtzman et al. 2020, The Curious Case of Neural Text Degeneration
        (https://arxiv.org/abs/1904.09751).

    Example:

    >>> SearchOptions(beam_size=2, n_best=2).length_penalty
    1.0
    >>> SearchOptions(beam_size=2, n_best=3)
    Traceback (most recent call last):
    ...
    keras_mt.errors.InputError: n_best must be at most beam_size=2. Received: n_best=3
    """

    beam_size: int | None = option(
        None,
        "Number of live hypotheses; 1 is greedy search. Not with a temperature, which samples "
        "n_best.",
        least=1,
        shown="4, or an imported run's",
    )
    n_best: int = option(
        1,
        "Number of hypotheses to return, at most beam_size; with a temperature, of samples.",
        least=1,
    )
    length_penalty: float = option(
        1.0,
        "Exponent of the length in the score, log_prob / length ** length_penalty, from 0 to 5. "
        "The log-probability includes the repetition penalty.",
        least=0,
        most=MAX_LENGTH_PENALTY,
    )
    min_length: int = option(
        0, "The minimum number of tokens to generate, including the end token.", least=0
    )
    early_stopping: str | bool = option(
        "never",
        "When the search for a sentence stops. never: only when nothing better can come; true: "
        "when beam_size hypotheses have ended; false: when that many have ended and no live one "
        "would beat the worst of them if it ended now. A sampled hypothesis goes on to its end.",
        choices=(True, False, "never"),
    )
    patience: float = option(
        1.0,
        "With early_stopping true, stop when patience * beam_size hypotheses have ended.",
        above=0,
    )
    force_end: bool = option(
        False,
        "Make the end the last token of a hypothesis that reaches max_length, at no cost.",
        flag="--force-end/--no-force-end",  # The run may say otherwise.
    )
    repetition_penalty: float = option(
        1.0,
        "Factor on the log-probability of tokens that the hypothesis already has, at least 1; 1 "
        "means no penalty.",
        least=1,
    )
    no_repeat_ngram_size: int = option(
        0, "No sequence of this many tokens occurs twice in a hypothesis; 0 allows all.", least=0
    )
    renormalize: bool = option(
        False,
        "Normalize the probabilities over the tokens that are allowed next, so that these sum to "
        "1.",
    )
    temperature: float | None = option(
        None,
        "Sample, with the logits divided by this, which must be above 0.",
        above=0,
        shown="beam search",
    )
    top_k: int = option(0, "Sample from this many most probable tokens; 0 means all.", least=0)
    top_p: float = option(
        1.0,
        "Sample from the fewest tokens whose probabilities sum to at least this; 1 means all.",
        above=0,
        most=1,
    )
    seed: int = option(0, "Seed of the sampling, an int32.", least=-(2**31), most=2**31 - 1)

    def __post_init__(self) -> None:
        def set_to(name, value):
            object.__setattr__(self, name, value)  # The dataclass is frozen.

        for field in dataclasses.fields(self):
            set_to(field.name, checked(field, getattr(self, field.name)))
        if self.samples and self.beam_size is not None:
            raise InputError(
                "beam_size does not go with a temperature, which samples n_best translations: "
                f"leave beam_size out. Received: beam_size={self.beam_size}"
            )
        if not self.samples:
            set_to("beam_size", 4 if self.beam_size is None else self.beam_size)
            if self.n_best > self.beam_size:
                raise InputError(
                    f"n_best must be at most beam_size={self.beam_size}. "
                    f"Received: n_best={self.n_best}"
                )
        if self.patience != 1 and self.early_stopping is not True:
            raise InputError(
                "patience goes with early_stopping=True only. "
                f"Received: patience={self.patience}, early_stopping={self.early_stopping!r}"
            )
        if not self.samples and (self.top_k or self.top_p < 1):
            raise InputError(
                "top_k and top_p narrow what is sampled: give a temperature too, such as 1."
            )

    @property
    def beams(self) -> int:
        """Number of hypotheses searched side by side."""
        return self.n_best if self.samples else self.beam_size

    @property
    def samples(self) -> bool:
        """Whether hypotheses are sampled."""
        return self.temperature is not None

    @property
    def exhaustive(self) -> bool:
        """Whether the search goes on as long as something better can come."""
        return self.samples or self.early_stopping == "never"

    @property
    def finished(self) -> int:
        """Number of finished hypotheses that decide whether the search is over."""
        if self.exhaustive:
            return self.n_best
        return max(self.n_best, math.floor(self.beam_size * self.patience + 0.5))

    @property
    def alters(self) -> bool:
        """Whether an option needs all log-probabilities, not only the best ones."""
        return self.samples or self.repetition_penalty != 1 or self.no_repeat_ngram_size > 0


@dataclasses.dataclass(frozen=True)
class TranslationOptions(LanguageOptions, SearchOptions):
    """The options of a `Translator`: those of the search, and how texts are split."""

    max_length: int | None = option(
        None,
        "The maximum number of tokens to generate, including the end token.",
        shown="twice the source's plus 10",
    )
    split_sentences: bool | None = option(
        None,
        "Translate each sentence of a line by itself, and join the translations. Lines are always "
        "translated one by one.",
        shown="yes; no for an imported run; for an export, as it was exported",
    )
    max_line_bytes: int = option(
        MAX_LINE_BYTES,
        "The maximum number of bytes of a line; a longer one is refused, since it would block all "
        "others for as long as it takes.",
        least=1,
    )


def check_language(name: str, code: str | None, languages: Sequence[str]) -> None:
    """Raises ValueError, which names the argument, for a code that is not among the languages.

    None is refused if there are languages.
    """
    if not languages:
        if code is not None:
            raise InputError(
                f"{name} is for models of several languages, which this one is not: leave it out. "
                f"Received: {name}={code!r}"
            )
    elif code is None:
        raise InputError(
            f"{name} must be given (--{name.replace('_', '-')} on the command line), since the "
            f"model has several languages: give one of its codes, such as {languages[0]}."
        )
    elif code not in languages:
        raise InputError(
            f"{name} must be a code of the model's languages. Received: {name}={code!r}"
            f"{nearest(str(code), languages)}"
        )
