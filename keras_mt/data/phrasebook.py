"""The embedded corpus, Brazilian Portuguese and English, which `examples/phrasebook` makes.

Each test sentence has a held-out combination of a word and a construction, both of which occur
often in training in other combinations.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

from keras_mt.errors import InputError

FILE = Path(__file__).with_name("phrasebook.tsv.gz")
LANGUAGES = ("pt", "en")
SPLITS = ("train", "validation", "test")


def pairs(split: str) -> Iterator[tuple[str, str]]:
    """Pairs of a Portuguese and an English sentence, always the same and in the same order.

    >>> next(pairs("test"))
    ('Em Dezembro, Lucas irá viajar ao Rio.', 'Lucas is travelling to Rio in December.')
    """
    if split not in SPLITS:
        raise InputError(f"phrasebook has the splits {', '.join(SPLITS)}, not {split!r}")
    _, *lines = gzip.decompress(FILE.read_bytes()).decode("utf-8").splitlines()  # After the header.
    return ((pt, en) for pt, en, of in (line.split("\t") for line in lines) if of == split)
