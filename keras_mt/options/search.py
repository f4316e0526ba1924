"""The options of a search, of languages, and of everything that translates."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from keras_mt.errors import DIVERGED, InputError
from keras_mt.options.fields import as_kinds, documented, option, suggestion, validate_all

# The log-probability of an impossible token, and the score where there is no hypothesis. It is
# finite, so that arithmetic on it never gives NaN.
NO_HYPOTHESIS = -1e9
# By the period of a loop, how many tokens in a row equal the one a period before.
LOOPS = {1: 3, 2: 4, 3: 6} | {period: period for period in range(4, 17)}
# The longest line that a translator takes unless told otherwise: some 2,700 words of English.
MAX_LINE_BYTES = 2**14
# The kinds of spans that can stay as they are, and those that do unless told otherwise.
KINDS = "email", "url", "placeholder", "phone", "number", "emoji"
KEPT_KINDS = "email", "url", "placeholder", "phone", "emoji"


@documented
@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The options of `beam_search`.

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
        "Search with this many live hypotheses; 1 is greedy search.",
        minimum=1,
        default_text="4, or an imported run's",
    )
    n_best: int = option("Return this many translations of each text.", 1, minimum=1)
    length_penalty: float = option(
        "Divide the log-probability by the length, in tokens, to this power.",
        1.0,
        minimum=0,
        maximum=5.0,  # The length of a long text to a higher power overflows float32.
    )
    word_penalty: float = option(
        "Subtract this from the log-probability for each token, as Marian does.",
        0.0,
        minimum=-1000.0,
        maximum=1000.0,
    )
    min_length: int = option(
        "Generate at least this many tokens, including the end token.", 0, minimum=0
    )
    early_stopping: str | bool = option(
        "Stop when nothing better can come (never), when a beam of hypotheses has ended (true), "
        "when no live one leads these (false), or as Marian does (shrink).",
        "never",
        choices=(True, False, "never", "shrink"),
    )
    patience: float = option(
        "Wait for this many beams of ended hypotheses where early stopping is true.", 1.0, above=0
    )
    force_end: bool = option(
        "End hypotheses of the maximum length at no cost.",
        False,
        flag="--force-end/--no-force-end",  # The run may say otherwise.
    )
    repetition_penalty: float = option(
        "Multiply the log-probability of tokens that a hypothesis has already; 1 is no penalty.",
        1.0,
        minimum=1,
    )
    no_repeat_ngram_size: int = option(
        "Let no sequence of this many tokens occur twice; 0 allows all.", 0, minimum=0
    )
    renormalize: bool = option("Normalize probabilities over the tokens allowed next.", False)
    temperature: float | None = option(
        "Sample with the logits divided by this.", above=0, default_text="beam search"
    )
    top_k: int = option("Sample from this many most probable tokens; 0 means all.", 0, minimum=0)
    top_p: float = option(
        "Sample from the fewest tokens whose probabilities sum to this; 1 means all.",
        1.0,
        above=0,
        maximum=1,
    )
    seed: int = option("Draw samples from this seed.", 0, minimum=-(2**31), maximum=2**31 - 1)

    def __post_init__(self) -> None:
        validate_all(self)
        if self.samples and self.beam_size is not None:
            raise InputError("beam_size does not go with `temperature`: give n_best alone.")
        if not self.samples:
            # The dataclass is frozen.
            object.__setattr__(self, "beam_size", self.beam_size or 4)
            if self.n_best > self.beam_size:
                raise InputError(
                    f"n_best must be at most beam_size={self.beam_size}. "
                    f"Received: n_best={self.n_best}"
                )
        if self.patience != 1 and self.early_stopping is not True:
            raise InputError(
                f"patience goes with early_stopping=True, not {self.early_stopping!r}."
            )
        if not self.samples and (self.top_k or self.top_p < 1):
            raise InputError("top_k and top_p narrow what is sampled: give `temperature` too.")

    @property
    def samples(self) -> bool:
        """True if hypotheses are sampled."""
        return self.temperature is not None

    @property
    def beams(self) -> int:
        """Number of hypotheses searched side by side."""
        return self.n_best if self.samples else self.beam_size

    @property
    def stopping(self) -> str | bool:
        """`early_stopping`; samples go on to their end."""
        return "never" if self.samples else self.early_stopping

    @property
    def finished(self) -> int:
        """Number of finished hypotheses that decide whether the search is over."""
        if self.stopping == "never":
            return self.n_best
        return max(self.n_best, math.floor(self.beam_size * self.patience + 0.5))

    def nothing_found(self, has_shortlist: bool) -> str:
        """Why a search finds nothing: probabilities, or what may leave it no token."""
        limits = {name: getattr(self, name) for name in ("min_length", "no_repeat_ngram_size")}
        limits["shortlist"] = has_shortlist
        limiting = " and ".join(name for name, limit in limits.items() if limit)
        reason = f"no token is left to go on with, because of {limiting}, or because {DIVERGED}"
        return reason if limiting else DIVERGED

    def search_arguments(self) -> dict[str, Any]:
        """The options of the search alone, as keywords of `beam_search`."""
        names = (field.name for field in dataclasses.fields(SearchOptions))
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True)
class LanguageOptions:
    """The languages that a multilingual model translates between."""

    source_language: str | None = option(
        "Translate from this language of the model, such as eng_Latn.",
        default_text="the run's",
        metavar="CODE",
    )
    target_language: str | None = option(
        "Translate into this language of the model.", default_text="the run's", metavar="CODE"
    )


@dataclasses.dataclass(frozen=True)
class TranslationOptions(LanguageOptions, SearchOptions):
    """The options of a `Translator`: of the search, languages, lengths, and how texts are split.

    `keep` becomes a tuple of kinds, in the order of `KINDS`.
    """

    max_length: int | None = option(
        "Generate at most this many tokens, including the end token.",
        default_text="twice the source's plus 10, within the model's limit",
    )
    max_length_factor: float | None = option(
        "Generate at most this many times the source's tokens.",
        above=0,
        maximum=1000,
    )
    split_sentences: bool = option(
        "Translate each sentence of a line by itself; imported runs take lines whole.",
        True,
        flag="--split-sentences/--no-split-sentences",
    )
    max_line_bytes: int = option("Refuse lines of more bytes.", MAX_LINE_BYTES, minimum=1)
    keep: str | Sequence[str] | None = option(
        f"Keep these kinds of spans as they are: {', '.join(KINDS)}, or none.",
        default_text=",".join(KEPT_KINDS),
        metavar="KINDS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        keep = KEPT_KINDS if self.keep is None else self.keep
        if isinstance(keep, str) and keep.strip() in ("", "none"):
            keep = ()
        object.__setattr__(self, "keep", as_kinds("keep", keep, KINDS))


def check_language(name: str, code: str | None, languages: Sequence[str]) -> None:
    """Raises ValueError, which names the argument, for a code that is not among the languages.

    None is refused if there are languages.
    """
    if not languages:
        if code is not None:
            raise InputError(
                f"{name} is for models of several languages, which this one is not: leave it out."
            )
    elif code is None:
        raise InputError(
            f"{name} must be given, since the model has several languages: give one of its codes, "
            f"such as {languages[0]}."
        )
    elif code not in languages:
        raise InputError(
            f"{name} must be a code of the model's languages. Received: {name}={code!r}"
            f"{suggestion(str(code), languages)}"
        )
