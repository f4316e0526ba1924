"""The parts that all imports share: what is read of a folder, and its model card."""

import dataclasses
import re
from pathlib import Path
from typing import Any, NamedTuple

from keras_mt.models import Transformer
from keras_mt.text import PretrainedTokenizer

_MAX_HEADER = 2**16
_MAX_LANGUAGES = 12  # In one line.
_NON_COMMERCIAL = re.compile(
    r"(?<![a-z])nc(?![a-z])|ncgl|apple-amlr|non[-_ ]?commercial|not?[-_ ](for[-_ ])?commercial"
    r"|research|academic(?! free)",
    re.IGNORECASE,
)

_WARNING = "\nwarning: this license is for non-commercial use, also of what is trained from it."


class Pretrained(NamedTuple):
    """A pretrained model, as it was read."""

    model: Transformer
    tokenizer: PretrainedTokenizer
    source: str  # The codes of the languages, "" if they are not known.
    target: str
    generation: dict[str, Any]  # The options of a `Translator`.
    languages: dict[str, str]  # The default ones of a model of several languages.


@dataclasses.dataclass(frozen=True)
class Card:
    """The license and the languages in the header of a folder's README.md."""

    license: str | None
    languages: tuple[str, ...]  # Their codes; empty if it names none.

    def __str__(self) -> str:
        number = len(self.languages)
        languages = ", ".join(self.languages) if number <= _MAX_LANGUAGES else str(number)
        text = f"license: {self.license or 'not stated'}; languages: {languages or 'not stated'}"
        return text + (_WARNING if _NON_COMMERCIAL.search(self.license or "") else "")


def read_card(folder: Path) -> Card:
    """The model card of a folder; what it does not say is None or empty."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    header = text[:_MAX_HEADER].split("\n---")[0]
    license = _field(header, "license")
    if license == "other":
        license = _field(header, "license_name") or license
    return Card(license or None, (*re.findall(r"[\w-]+", _field(header, "language")),))


def _field(header, name):
    """The text of a field of YAML, in a line or several, or a list, without YAML's own marks."""
    match = re.search(rf"^{name}:(.*(?:\n(?:[ \t]|- ).*)*)", header, re.MULTILINE)
    lines = match[1].split("\n") if match else []
    lines = [re.sub(r"\s#.*|^\s*- |^ *[>|]-?$|[\[\]\"']", "", line).strip() for line in lines]
    # A license that is printed cannot steer a terminal.
    return "".join(filter(str.isprintable, " ".join(filter(None, lines))))
