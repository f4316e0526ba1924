"""What a search can be asked for."""

import dataclasses
import math
import operator

# A long text's length to a higher power is more than float32 holds.
MAX_LENGTH_PENALTY = 5.0


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Options of `beam_search`, and of all that translates.

    Args:
        beam_size: Number of live hypotheses; 1 is greedy search. None means 4, or with a
            `temperature`, which it is not for, nothing.
        n_best: Number of hypotheses to return, at most `beam_size`; with a `temperature` number of
            samples.
        length_penalty: Exponent of the length in the score, `log_prob / length ** length_penalty`,
            from 0 to 5. The log-probability is that with the repetition penalty.
        min_length: The fewest tokens to generate, with the end.
        repetition_penalty: Factor on the log-probability of tokens that the hypothesis has
            already, at least 1; 1 is none.
        no_repeat_ngram_size: No hypothesis has the same so many tokens in a row twice; 0 allows
            all.
        temperature: Divisor of the logits to sample from, above 0; None searches for the best.
        top_k: Sample from the so many most probable tokens; 0 means all.
        top_p: Sample from the fewest tokens whose probabilities sum to so much; 1 means all.
        seed: Seed of the samples, an int32.

    Raises:
        ValueError: If an option is out of range, or not an integer where its type is int, or
            `top_k` or `top_p` is given without `temperature`.

    Reference:
        Repetition penalty: Keskar et al. 2019, CTRL (https://arxiv.org/abs/1909.05858), on
        log-probabilities; top-p: Holtzman et al. 2020, The Curious Case of Neural Text Degeneration
        (https://arxiv.org/abs/1904.09751).
    """

    beam_size: int | None = None
    n_best: int = 1
    length_penalty: float = 1.0
    min_length: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        def check(name, fits, expected):
            if not fits:
                raise ValueError(f"{name} must be {expected}. Received: {name}={values[name]}")

        def set_to(name, value):
            object.__setattr__(self, name, value)  # The dataclass is frozen.

        for field in dataclasses.fields(self):
            if field.type is int:
                set_to(field.name, as_integer(field.name, getattr(self, field.name)))
        if self.samples and self.beam_size is not None:
            raise ValueError(
                "beam_size is of a search for the best, and with a temperature n_best translations "
                f"are sampled: leave beam_size out. Received: beam_size={self.beam_size}"
            )
        if not self.samples:
            size = 4 if self.beam_size is None else as_integer("beam_size", self.beam_size)
            set_to("beam_size", size)
        values = dataclasses.asdict(self)
        if self.samples:
            check("n_best", self.n_best >= 1, "at least 1")
        else:
            check("beam_size", self.beam_size >= 1, "at least 1")
            check(
                "n_best",
                1 <= self.n_best <= self.beam_size,
                f"at least 1 and at most beam_size={self.beam_size}",
            )
        check(
            "length_penalty",
            0 <= self.length_penalty <= MAX_LENGTH_PENALTY,
            f"at least 0 and at most {MAX_LENGTH_PENALTY:g}",
        )
        check("min_length", self.min_length >= 0, "at least 0")
        check("repetition_penalty", 1 <= self.repetition_penalty < math.inf, "at least 1")
        check("no_repeat_ngram_size", self.no_repeat_ngram_size >= 0, "at least 0")
        check(
            "temperature",
            self.temperature is None or 0 < self.temperature < math.inf,
            "above 0, or None",
        )
        check("top_k", self.top_k >= 0, "at least 0")
        check("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
        check("seed", -(2**31) <= self.seed < 2**31, "an int32")
        if not self.samples and (self.top_k or self.top_p < 1):
            raise ValueError("top_k and top_p are of sampling: give a temperature too, such as 1.")

    @property
    def beams(self) -> int:
        """Number of hypotheses side by side."""
        return self.n_best if self.samples else self.beam_size

    @property
    def samples(self) -> bool:
        """Whether hypotheses are drawn."""
        return self.temperature is not None

    @property
    def alters(self) -> bool:
        """Whether an option needs all log-probabilities, and not the best alone."""
        return self.samples or self.repetition_penalty != 1 or self.no_repeat_ngram_size > 0


def as_integer(name, value):
    """An int, from an integer of any kind; of anything else ValueError by the name."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer. Received: {name}={value!r}") from None
