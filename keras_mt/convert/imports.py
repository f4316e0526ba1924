"""What all imports share: a folder's model card, and what becomes of what was read of a folder."""

import dataclasses
import os
import re
from pathlib import Path

import keras

from keras_mt.files import new_folder
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.translation import Translator

_MAX_HEADER = 2**16
_MOST_NAMED = 12  # Of languages in one line.
_NON_COMMERCIAL = re.compile(r"\bnc\b|non-?commercial", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Card:
    """What the header of a folder's README.md says.

    >>> print(Card("cc-by-nc-4.0", ("en", "de")))
    license: cc-by-nc-4.0; languages: en, de
    >>> Card("cc-by-nc-4.0", ()).non_commercial
    True
    """

    license: str | None
    languages: tuple[str, ...]  # Their codes; empty if it names none.

    @property
    def non_commercial(self) -> bool:
        """Whether the license allows non-commercial use alone."""
        return bool(_NON_COMMERCIAL.search(self.license or ""))

    def __str__(self) -> str:
        number = len(self.languages)
        languages = ", ".join(self.languages) if number <= _MOST_NAMED else str(number)
        return f"license: {self.license or 'not stated'}; languages: {languages or 'not stated'}"


def read_card(folder: Path) -> Card:
    """The model card of a folder; what it does not say is None or empty."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    header = text[:_MAX_HEADER].split("\n---")[0]

    def values(field):
        # On the field's line, or in the lines of a list that follow.
        match = re.search(rf"^{field}:(.*(?:\n[ \t]*- .*)*)", header, re.MULTILINE)
        return re.findall(r"\w[\w.+-]*", match[1]) if match else []

    named = values("license")[:1]
    if named == ["other"]:
        named = values("license_name")[:1] or named
    return Card(named[0] if named else None, tuple(values("language")))


def as_translator(model: keras.Model, tokenizer: BaseTokenizer, config: RunConfig) -> Translator:
    """The translator of a model that was read."""
    translator = Translator(model, tokenizer, **config.generation, **config.options)
    card = {"source": config.source, "target": config.target, "license": config.license}
    translator.card = {name: value for name, value in card.items() if value}
    return translator


def as_run(
    run_dir: str | os.PathLike, model: keras.Model, tokenizer: BaseTokenizer, config: RunConfig
) -> None:
    """Writes the run folder of a model that was read; the write is atomic."""
    with new_folder(run_dir) as temporary:
        folder = RunFolder(temporary)
        folder.save_tokenizer(tokenizer)
        model.save(folder.model_file)
        folder.write_config(config)
