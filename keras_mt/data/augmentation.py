"""Sources as users type them: in capitals, in title case, with other punctuation."""

import re
from random import Random

# Each kind changes a pair in one of this many epochs, and so a tenth of an epoch's pairs.
CYCLE = 10

_ENTITY = re.compile(r"(&\w+;|&#\w+;)")  # As Moses's tokenizer spells some marks.
_INITIAL = re.compile(r"((?:^|[\s\-\u2013\u2014/(\[{\"“”„«])[‘’'¿¡]?)(\w)")
_FINAL_POINT = re.compile(r"(?<![.\s])\s*[.。।]\s*$")
_QUOTES = ("“”", "„“", "«»")
_QUOTED = re.compile(r"&apos;|&quot;|['\"]")
_TYPOGRAPHIC = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys("“”„‟«»", '"')
)


def augmented(source: str, kind: str, seed: int = 0, index: int = 0) -> str:
    """A source as a user may type it; never blank, unless `source` is.

    Random choices depend on `seed` and `index`, the pair's number in the corpus.
    """
    changed = _CHANGES[kind](source, Random(f"{kind} {seed} {index}"))
    return changed if changed.strip() else source


def phase(seed: int, index: int) -> int:
    """A pair's place in the cycle: `AUGMENTATIONS[(phase + epoch) % CYCLE]`, if any, changes it."""
    return Random(f"{seed} {index}").randrange(CYCLE)


def _caps(source, random):
    return "".join(x if _ENTITY.fullmatch(x) else x.upper() for x in _ENTITY.split(source))


def _title(source, random):
    return _INITIAL.sub(lambda found: found[1] + found[2].title(), source)


def _punctuation(source, random):
    """Straight quotes as typographic ones, or back; some lose the final point or double spaces."""
    without_point, doubled = random.random() < 0.5, random.random() < 0.5
    straight = source.translate(_TYPOGRAPHIC)
    source = straight if straight != source else _typographic(source, random.choice(_QUOTES))
    if without_point:
        source = _FINAL_POINT.sub("", source)
    if doubled:
        source = re.sub(" ", lambda _: "  " if random.random() < 0.25 else " ", source)
    return source


def _typographic(source, quotes):
    """Straight quotes as opening and closing ones, apostrophes as `’`."""
    opened = False

    def mark(found):
        nonlocal opened
        if found[0] in ("'", "&apos;"):
            before, after = source[: found.start()], source[found.end() :]
            opens = not before[-1:].strip() and after[:1].isalpha() and found[0] in after
            return "‘" if opens else "’"
        opened = not opened
        return quotes[0] if opened else quotes[1]

    return _QUOTED.sub(mark, source)


_CHANGES = {"caps": _caps, "title": _title, "punctuation": _punctuation}
