"""The glossaries of a server: those that it began with, and those that clients make."""

import dataclasses
import datetime
import functools
import json
import pickle
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import langcodes
from starlette.exceptions import HTTPException

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.text.glossary import Glossary


@dataclasses.dataclass(frozen=True)
class StoredGlossary:
    """A glossary of a server.

    Attributes:
        id: What clients name it by.
        name: What people call it.
        source, target: The codes of its languages; "" for those of all models.
        terms: Its terms, as `keras_mt.Glossary` takes them.
        user: The name of who made it; None for one that is everyone's.
        created: When it was made, in ISO 8601.
    """

    id: str
    name: str
    source: str
    target: str
    terms: Sequence[Any]
    user: str | None = None
    created: str = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat("T", "microseconds")
    )

    @functools.cached_property
    def pickled(self) -> bytes:
        """The terms for a worker, which tells by their bytes whether it has them already."""
        return pickle.dumps(self.terms)


class Glossaries:
    """Glossaries by their ids.

    Args:
        files: Files of glossaries by their names.
        folder: Where those of clients are kept; None to keep none.
        maximum: The maximum number of these, of each user.
    """

    def __init__(
        self, files: Mapping[str, str] = {}, folder: Path | None = None, maximum: int = 1000
    ):
        self._folder, self._maximum = folder, maximum
        self._all: dict[str, StoredGlossary] = {}
        for name, file in files.items():
            self._all[name] = StoredGlossary(name, name, "", "", list(Glossary.load(file)))
        for path in sorted(folder.glob("*.json")) if folder else ():
            try:
                stored = StoredGlossary(**json.loads(path.read_text("utf-8")))
                Glossary(stored.terms)  # It refuses what is no term.
                self._all[path.stem] = stored
            except (ValueError, TypeError) as error:
                message = f"{path} is damaged: put it back or remove it. ({error})"
                raise InputError(message) from None

    def of(self, user: str) -> list[StoredGlossary]:
        """The glossaries that a user may use."""
        return [each for each in self._all.values() if each.user in (user, None)]

    def find(self, id: str, user: str, pair: tuple[str, str] | None = None) -> StoredGlossary:
        """A glossary that a user may use, for a pair of languages; HTTPException without one."""
        found = self._all.get(id)
        if found is None or found.user not in (user, None):
            raise HTTPException(404, f"there is no glossary {id!r}")
        own, others = bases(found.source, found.target), bases(*pair or ())
        if pair and found.source and own != others:
            raise HTTPException(400, f"the glossary is for {'-'.join(own)}, not {'-'.join(others)}")
        return found

    def add(
        self, name: str, source: str, target: str, terms: Sequence[Any], user: str
    ) -> StoredGlossary:
        """Makes a glossary; HTTPException if a term is wrong, or there are too many."""
        if sum(each.user == user for each in self._all.values()) >= self._maximum:
            raise HTTPException(456, f"there are {self._maximum} glossaries, the most that may be")
        try:
            terms = [list(term)[:2] for term in Glossary(terms)]
        except ValueError as error:
            raise HTTPException(400, f"entries: {error}") from None
        made = StoredGlossary(str(uuid.uuid4()), name, source, target, terms, user)
        if self._folder:
            with atomic_write(self._folder / f"{made.id}.json") as temporary:
                temporary.write_text(json.dumps(dataclasses.asdict(made)), encoding="utf-8")
        self._all[made.id] = made
        return made

    def remove(self, id: str, user: str) -> None:
        """Removes a glossary that a user has made."""
        if self.find(id, user).user is None:
            raise HTTPException(403, f"the glossary {id!r} is the server's own")
        del self._all[id]
        if self._folder:
            (self._folder / f"{id}.json").unlink(missing_ok=True)


def bases(*codes: str) -> tuple[str, ...]:
    """The languages of codes, without the countries, which glossaries have none of."""
    return tuple(code and langcodes.Language.get(code).language.upper() for code in codes)
