"""The constructions of the phrasebook, one function each: a sentence in both languages.

A construction takes a random number generator and returns a `Sentence`, or None where the draw
makes no sense (it is then drawn again). `@construction(weight)` registers it under its name.
"""

from collections.abc import Callable
from random import Random

from keras_mt.data.phrasebook import grammar as g
from keras_mt.data.phrasebook import lexicon as lex
from keras_mt.data.phrasebook.grammar import (
    Phrase,
    Sentence,
    chain,
    clause,
    distinct,
    finish,
    timed,
)
from keras_mt.data.phrasebook.morphology import (
    agree,
    attach,
    comparative,
    en_verb,
    genitive,
    pt_gerund,
    pt_imperative,
    pt_participle,
    superlative,
)

CONSTRUCTIONS: dict[str, tuple[Callable[[Random], Sentence | None], float]] = {}
NOTHING = Phrase("", "")


def construction(weight: float = 1.0):
    """Registers a function as a construction that is drawn this often."""

    def register(function):
        CONSTRUCTIONS[function.__name__] = (function, weight)
        return function

    return register


def mood(rng: Random, no: float = 0.2, question: float = 0.0) -> str:
    """A mood for a clause: mostly a statement."""
    draw = rng.random()
    return "not" if draw < no else "?" if draw < no + question else ""


def who(rng: Random, mood: str, we: bool = True) -> Phrase:
    return g.asked(rng) if mood == "?" else g.subject(rng, we)


def ended(rng: Random, clause: Phrase, time: Phrase, mood: str) -> Sentence:
    """A statement with its time in either place, or a question with its time at the end."""
    return finish(chain(clause, time), "?") if mood == "?" else timed(rng, clause, time)


# Being somewhere.


@construction(1.3)
def located(rng):
    """O livro está em cima da mesa. / The book is on the table."""
    thing = g.noun_phrase(
        rng, rng.choice(g.BY_CLASS["portable"] + g.BY_CLASS["animal"]), g.DEFINITE
    )
    preposition, english = rng.choice(lex.POSITIONS)
    ground = rng.choice(g.BY_CLASS["surface"] + g.BY_CLASS["opening"][:1] * 0)
    place = g.noun_phrase(rng, ground, g.DEFINITE, adjective=0.25)._replace(plural=False)
    if not distinct(thing, place):
        return None
    rest = Phrase(attach(preposition, place.pt), f"{english} {place.en}", place.words)
    kind = mood(rng, 0.15, 0.15)
    return finish(clause(thing, "present", "estar", "be", rest, kind), kind or ".")
