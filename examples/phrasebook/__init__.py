"""A small grammar of Brazilian Portuguese and English, which makes keras_mt's embedded corpus.

usage: PYTHONPATH=examples python -m phrasebook keras_mt/data/phrasebook.tsv.gz

The test set consists of held-out combinations of a word and a construction (`HELD_OUT`): each test
sentence has one, no sentence of training or validation has any, and both the word and the
construction occur often in training, in other combinations.
"""

import functools
import gzip
import re
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import NamedTuple

from phrasebook.constructions import CONSTRUCTIONS
from phrasebook.grammar import Senseless
from phrasebook.lexicon import GREETINGS, MEN, WOMEN


class Example(NamedTuple):
    """A pair of the corpus, the construction that made it and the lemmas in it."""

    pt: str
    en: str
    construction: str
    words: tuple[str, ...]


LANGUAGES = ("pt", "en")
SPLITS = ("train", "validation", "test")
SIZES = {"train": 19_000, "validation": 500, "test": 800}

# Always held out, for the two lecture sentences that open the test set; and the combinations of
# these sentences that training must keep.
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
        "O livro está em cima da mesa.", "The book is on the table.", "located", ("livro", "mesa")
    ),
)
PEOPLE = {*MEN, *WOMEN}
# How often a word form must occur in training for a test sentence to have it.
FAMILIAR = 10
# The fewest candidates for the test set that are drawn from each construction.
TESTED = 20


def _draw(rng, name):
    function, _ = CONSTRUCTIONS[name]
    while True:
        try:
            pt, en, words, *_ = function(rng)
        except Senseless:
            continue
        words = tuple(filter(None, dict.fromkeys(words)))
        return Example(pt[0].upper() + pt[1:], en[0].upper() + en[1:], name, words)


@functools.lru_cache(maxsize=1)
def held_out():
    """The combinations of a word and a construction that only the test set has.

    There are two for each construction, with words that are common enough in it to matter, not so
    common that it would be rare without them, and that occur in several other constructions. Names
    of people are left out: they would be too easy.
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


def _combination(example):
    """The first held-out combination of an example; None if it has none."""
    combinations = ((word, example.construction) for word in example.words)
    return next((each for each in combinations if each in held_out()), None)


def _forms(text):
    """The word forms of a sentence, without punctuation and capital letters."""
    return re.sub("[,.!?]", "", text.lower()).split()


@functools.lru_cache(maxsize=2)
def examples(seed=0):
    """The corpus by split, each pair with its construction and lemmas.

    No sentence occurs twice, in either language. Validation is drawn as training is, without the
    held-out combinations.

    Args:
        seed: Seed of the sentences; the held-out combinations are the same for every seed.

    Returns:
        A dict from split to a list of `Example`.
    """
    rng = Random(seed)
    greetings = [Example(pt, en, "greeting", ()) for pt, en in GREETINGS]
    known, novel = _pools(rng, [*LECTURE, *greetings])
    rng.shuffle(known)
    validation, train = known[: SIZES["validation"]], known[SIZES["validation"] :] + greetings
    rng.shuffle(train)
    familiar = [Counter(form for e in train for form in _forms(e[side])) for side in (0, 1)]

    def understandable(example):
        sides = zip(familiar, example[:2], strict=True)
        return all(counts[form] >= FAMILIAR for counts, text in sides for form in _forms(text))

    novel = [example for example in _in_turns(rng, novel) if understandable(example)]
    test = [*LECTURE, *novel[: SIZES["test"] - len(LECTURE)]]
    return {"train": train, "validation": validation, "test": test}


def _pools(rng, fixed):
    """Draws from every construction: sentences for training, and those only for the test set."""
    seen = {text for example in fixed for text in example[:2]}
    total = sum(weight for _, weight in CONSTRUCTIONS.values())
    wanted = SIZES["train"] + SIZES["validation"] - len(GREETINGS)
    known, novel = [], []
    for name, (_, weight) in CONSTRUCTIONS.items():
        enough = round(wanted * weight / total)
        open_pool, held_pool = [], []
        for _ in range(12 * enough):
            if len(open_pool) >= enough and len(held_pool) >= TESTED:
                break
            example = _draw(rng, name)
            if not seen.isdisjoint(example[:2]):
                continue
            seen.update(example[:2])
            (held_pool if _combination(example) else open_pool).append(example)
        known += open_pool[:enough]
        novel += held_pool
    return known, novel


def _in_turns(rng, novel):
    """Examples reordered so that the held-out combinations take turns."""
    queues = defaultdict(list)
    for example in novel:
        queues[_combination(example)].append(example)
    turns = [
        (turn, rng.random(), example)
        for queue in queues.values()
        for turn, example in enumerate(queue)
    ]
    return [example for _, _, example in sorted(turns)]


def write(path):
    """Writes the corpus as `keras_mt.data.phrasebook` reads it."""
    lines = ["\t".join((*LANGUAGES, "split"))]
    for split in SPLITS:
        lines += [f"{example.pt}\t{example.en}\t{split}" for example in examples()[split]]
    text = "".join(f"{line}\n" for line in lines)
    Path(path).write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
