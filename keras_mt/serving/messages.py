"""What a server and its workers say to each other."""

from typing import NamedTuple

from keras_mt.translation.results import Hypothesis


class Job(NamedTuple):
    """A text for a worker.

    Attributes:
        text: The text, a str or a `keras_mt.text.Fragment`.
        source_language, target_language: Codes of the model; None where it has no choice.
        glossary: The key of a glossary, or None.
        detailed: Whether confidence and the links of words are wanted.
    """

    text: str
    source_language: str | None = None
    target_language: str | None = None
    glossary: str | None = None
    detailed: bool = False


class Answer(NamedTuple):
    """What became of a job: hypotheses, best first, or why there are none.

    Attributes:
        hypotheses: None if there is no translation.
        links: Pairs of words, counted from 0, of the text and its best translation.
        tokens: The tokens of the best translation; 0 where the model does not say.
        refusal: Why the text is refused.
        failure: What went wrong, if that is no fault of the text.
    """

    hypotheses: list[Hypothesis] | None = None
    links: tuple[tuple[int, int], ...] = ()
    tokens: int = 0
    refusal: str = ""
    failure: str = ""


class Facts(NamedTuple):
    """What a worker says of its model when it is ready.

    Attributes:
        pid: The number of its process.
        pairs: The pairs of languages; of a model of several languages, None for all pairs.
        languages: The codes of a model of several languages.
        supports_alignment, supports_terms, supports_confidence: What it can do.
        split_sentences: Whether it translates sentence by sentence.
        batch: The texts that it takes at once.
    """

    pid: int
    pairs: list[tuple[str, str]] | None
    languages: list[str]
    supports_alignment: bool
    supports_terms: bool
    supports_confidence: bool
    split_sentences: bool
    batch: int
