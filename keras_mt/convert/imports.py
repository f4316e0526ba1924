"""The parts that all imports share: a folder's model card, and the run made of what was read."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.options import TrainingOptions, TranslationOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.translation import Translator

_MAX_HEADER = 2**16
_MAX_LANGUAGES = 12  # In one line.
# In the ids of SPDX and of the hub (the last five say it only in their text), and in words.
_NON_COMMERCIAL = re.compile(
    r"(?<![a-z])nc(?![a-z])|non[-_ ]?commercial|not?[-_ ](for[-_ ])?commercial|"
    r"(research|academic)([-_ ](use|purposes))?[-_ ]only|"
    r"ncgl|apple-amlr|deepfloyd-if|h-research|intel-research",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Card:
    """The license and the languages in the header of a folder's README.md."""

    license: str | None
    languages: tuple[str, ...]  # Their codes; empty if it names none.

    @property
    def non_commercial(self) -> bool:
        """True if the license allows non-commercial use alone."""
        return bool(_NON_COMMERCIAL.search(self.license or ""))

    def __str__(self) -> str:
        number = len(self.languages)
        languages = ", ".join(self.languages) if number <= _MAX_LANGUAGES else str(number)
        return f"license: {self.license or 'not stated'}; languages: {languages or 'not stated'}"


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


def check_search(options: Mapping[str, Any], names: Mapping[str, str], where: Path) -> None:
    """Refuses options that no search takes, by the file and its names of them."""
    try:
        TranslationOptions(**options)
    except ValueError as error:
        fields = [field for field, option in names.items() if option in str(error)]
        raise InputError(f"{where}: {', '.join(fields)}: {error}") from None


def imported_config(
    folder: Path,
    model: keras.Model,
    pair: Sequence[str],
    languages: dict[str, str],
    generation: dict[str, Any],
) -> RunConfig:
    """The configuration of the run that a folder becomes; a language is "" if it is not known."""
    return RunConfig(
        [],
        *pair,
        TrainingOptions(**languages),
        license=read_card(folder).license,
        model_config=model.get_config(),
        generation=generation,
    )


def as_translator(model: keras.Model, tokenizer: BaseTokenizer, config: RunConfig) -> Translator:
    """The translator of a model that was read."""
    translator = Translator(model, tokenizer, **config.generation, **config.languages)
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
