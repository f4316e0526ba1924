"""The models of a server, by their languages; and the language of a text."""

import functools
import re
from collections.abc import Sequence

import langcodes
from starlette.exceptions import HTTPException

from keras_mt.data.cleaning_rules import identifier_code, language_identifier
from keras_mt.extras import require
from keras_mt.serving.pool import Pool

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_]([A-Za-z]{2}|\d{3}))?")
_READ = 5000  # The characters of a text that its language is found by.


class Catalogue:
    """The models of a server.

    Args:
        pools: A ready `Pool` for each model. For a pair of several, the first one counts.

    Attributes:
        pools: The pools.
        sources: The codes of all languages that texts may have.
        targets: The codes of all languages that translations may have.
    """

    def __init__(self, pools: Sequence[Pool]):
        self.pools = list(pools)
        self._targets: dict[str, dict[str, Pool]] = {}  # By source, and by target.
        for pool in self.pools:
            for source, target in pool.facts.pairs:
                self._targets.setdefault(source, {}).setdefault(target, pool)
        self.sources = list(self._targets)
        self.targets = list(dict.fromkeys(code for own in self._targets.values() for code in own))

    def targets_of(self, source: str) -> list[str]:
        """The codes of the languages that texts of one language are translated to."""
        return list(self._targets[source])

    def sources_of(self, target: str) -> list[str]:
        """The codes of the languages that are translated to one."""
        return [source for source, own in self._targets.items() if target in own]

    def source(self, code: str) -> str:
        """The model's code of a source language that somebody names."""
        return self._named("source", code, self.sources)

    def target(self, code: str) -> str:
        """The model's code of a target language that somebody names."""
        return self._named("target", code, self.targets)

    def _named(self, side, code, known):
        found = next((each for each in known if each.casefold() == code.casefold()), None)
        if found or (_CODE.fullmatch(code) and (found := _closest(code, tuple(known)))):
            return found
        message = f"the {side} language {code[:40]!r} is not supported: it may be "
        raise HTTPException(400, message + ", ".join(known))

    def pool(self, source: str, target: str) -> Pool:
        """The model that translates between two languages."""
        if pool := self._targets.get(source, {}).get(target):
            return pool
        pairs = ", ".join(f"{a}-{b}" for a, targets in self._targets.items() for b in targets)
        raise HTTPException(400, f"there is no model for {source}-{target}: there are {pairs}")

    def detect(
        self, text: str, codes: Sequence[str] | None = None, html: bool = False
    ) -> list[tuple[str, float]]:
        """The languages that a text may have, of `codes` or of all, with their probabilities.

        The most probable is first. Where there is one alone, it is that. Tags of HTML do not count.
        """
        codes = codes or self.sources
        if len(codes) == 1:
            return [(codes[0], 1.0)]
        known = _by_identifier(tuple(codes))
        if not known:
            raise HTTPException(400, f"name the source language, one of {', '.join(codes)}")
        text = re.sub("<[^<>]*>", " ", text) if html else text
        ranked = language_identifier(tuple(known)).rank(text[:_READ])
        return [(known[name], float(probability)) for name, probability in ranked]


def name_of(code: str) -> str:
    """The English name of a language."""
    return langcodes.Language.get(code).display_name()


@functools.lru_cache(maxsize=1024)
def _closest(code, known):
    """The known code for a language, such as `en` for `EN-US`, or `eng_Latn` for `en`; or None."""
    if not langcodes.tag_is_valid(code):
        return None
    # Up to 9: regions and scripts that a reader has no trouble with.
    found, _ = langcodes.closest_match(code, list(known), max_distance=9)
    return None if found == "und" else found


@functools.cache
def _by_identifier(codes):
    """The model's codes by those of the identifier, which has not all of them."""
    require("py3langid", "serve", "To find the language of a text")
    names = {c: identifier_code(langcodes.Language.get(c).language) for c in reversed(codes)}
    return {name: code for code, name in names.items() if name}
