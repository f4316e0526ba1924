"""The embedded corpus: a small grammar of Brazilian Portuguese and English, written for keras_mt.

The test set holds out whole combinations of a word and a construction (`HELD_OUT`): each test
sentence has one, no sentence of training or validation has any, and both the word and the
construction are well represented in training with others.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from random import Random

from keras_mt.data.phrasebook.constructions import CONSTRUCTIONS
from keras_mt.data.phrasebook.grammar import Example, Sentence
from keras_mt.data.phrasebook.lexicon import GREETINGS, MEN, WOMEN

LANGUAGES = ("pt", "en")
SPLITS = ("train", "validation", "test")
SIZES = {"train": 19_000, "validation": 500, "test": 800}

# Held out whatever the rule says, for the two lecture sentences that open the test set; and what
# these sentences must find in training.
LECTURE_HELD_OUT = (("Rio", "trip"), ("livro", "located"))
LECTURE_KEPT = {("Lucas", "trip"), ("Dezembro", "trip"), ("viajar", "trip"), ("mesa", "located")}
LECTURE = (
    Example(
        "Em Dezembro, Lucas irá viajar ao Rio.",
        "Lucas is travelling to Rio in December.",
        "trip",
        ("Lucas", "viajar", "Rio", "Dezembro"),
    ),
    Example(
        "O livro está em cima da mesa.",
        "The book is on the table.",
        "located",
        ("livro", "mesa"),
    ),
)
PEOPLE = {*MEN, *WOMEN}
# How often a word form has to occur in training before a test sentence may have it.
FAMILIAR = 10
# Candidates for the test set that each construction draws at least.
TESTED = 20


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _example(name: str, sentence: Sentence) -> Example:
    words = tuple(word for word in dict.fromkeys(sentence.words) if word)
    return Example(_capital(sentence.pt), _capital(sentence.en), name, words)


def _draw(rng: Random, name: str) -> Example:
    function, _ = CONSTRUCTIONS[name]
    while (sentence := function(rng)) is None:
        pass
    return _example(name, sentence)


@functools.lru_cache(maxsize=1)
def held_out() -> frozenset[tuple[str, str]]:
    """The combinations of a word and a construction that only the test set has.

    Two for each construction, among the words that are common enough in it to leave a mark, not so
    common that it would be lost without them, and at home in several other constructions. Names
    of people would be too easy.
    """
    rng = Random(20)
    counts = {
        name: Counter(word for _ in range(300) for word in _draw(rng, name).words)
        for name in CONSTRUCTIONS
    }
    homes = Counter(word for words in counts.values() for word in words)
    chosen = set(LECTURE_HELD_OUT)
    for name, words in counts.items():
        fit = [w for w, n in words.items() if 6 <= n <= 30 and homes[w] >= 5]
        fit = [w for w in sorted(fit) if w not in PEOPLE and (w, name) not in LECTURE_KEPT]
        chosen.update((word, name) for word in rng.sample(fit, min(len(fit), 2)))
    return frozenset(chosen)


def _forms(text: str) -> list[str]:
    """The word forms of a sentence, without punctuation and capital letters."""
    return text.lower().translate(_NO_PUNCTUATION).split()


_NO_PUNCTUATION = str.maketrans("", "", ",.!?")


@functools.lru_cache(maxsize=2)
def examples(seed: int = 0) -> dict[str, list[Example]]:
    """The corpus by split, each pair with its construction and lemmas.

    No sentence occurs twice, in either language. Validation is drawn as training is, without the
    held-out combinations.

    Args:
        seed: Draws other sentences of the same grammar, and holds out the same combinations.
    """
    rng = Random(seed)
    held = held_out()
    greetings = [Example(pt, en, "greeting", ()) for pt, en in GREETINGS]
    seen = {text for example in (*LECTURE, *greetings) for text in example[:2]}
    known, novel = [], []
    total = sum(weight for _, weight in CONSTRUCTIONS.values())
    wanted = SIZES["train"] - len(greetings) + SIZES["validation"]
    for name, (_, weight) in CONSTRUCTIONS.items():
        enough = round(wanted * weight / total)
        drawn, tested = 0, 0
        for _ in range(12 * enough):
            if drawn == enough and tested >= TESTED:
                break
            example = _draw(rng, name)
            if example.pt in seen or example.en in seen:
                continue
            seen.update(example[:2])
            if held.isdisjoint((word, name) for word in example.words):
                known += [example] * (drawn < enough)
                drawn += drawn < enough
            else:
                novel.append(example)
                tested += 1
    rng.shuffle(known)
    validation, train = known[: SIZES["validation"]], known[SIZES["validation"] :] + greetings
    rng.shuffle(train)
    familiar = Counter(form for example in train for text in example[:2] for form in _forms(text))
    test = list(LECTURE)
    for example in _in_turns(rng, novel, held):
        if all(familiar[form] >= FAMILIAR for text in example[:2] for form in _forms(text)):
            test.append(example)
        if len(test) == SIZES["test"]:
            break
    return {"train": train, "validation": validation, "test": test}


def _in_turns(rng: Random, novel: list[Example], held: frozenset) -> list[Example]:
    """Examples reordered so that every held-out combination has its turn."""
    queues: dict[tuple[str, str], list[Example]] = {}
    for example in novel:
        combination = next(
            (word, example.construction)
            for word in example.words
            if (word, example.construction) in held
        )
        queues.setdefault(combination, []).append(example)
    turns = [
        (turn, rng.random(), example)
        for queue in queues.values()
        for turn, example in enumerate(queue)
    ]
    return [example for _, _, example in sorted(turns)]


def pairs(split: str, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Pairs of a Portuguese and an English sentence, always the same for a seed.

    Args:
        split: One of `SPLITS`.
        seed: See `examples`.
    """
    if split not in SPLITS:
        raise ValueError(f"phrasebook has the splits {', '.join(SPLITS)}, not {split!r}")
    return ((example.pt, example.en) for example in examples(seed)[split])


def __getattr__(name: str) -> frozenset[tuple[str, str]]:
    # Takes a tenth of a second, so not at import.
    if name == "HELD_OUT":
        return held_out()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
