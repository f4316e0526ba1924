"""The parts that all imports share: a folder's model card, and the run made of what was read."""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_mt.files import new_folder
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.translation import Translator

_MAX_HEADER = 2**16
_MOST_NAMED = 12  # Of languages in one line.
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
        languages = ", ".join(self.languages) if number <= _MOST_NAMED else str(number)
        return f"license: {self.license or 'not stated'}; languages: {languages or 'not stated'}"


def read_card(folder: Path) -> Card:
    """The model card of a folder; what it does not say is None or empty."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    header = text[:_MAX_HEADER].split("\n---")[0]

    licenses = _values(header, "license")
    if licenses == ["other"]:
        licenses = _values(header, "license_name") or licenses
    languages = re.findall(r"[\w-]+", " ".join(_values(header, "language")))
    return Card(", ".join(licenses) or None, tuple(languages))


def _values(header, field):
    """The values of a field of YAML: a scalar, in a line or several, or a list."""
    match = re.search(rf"^{field}:[ \t]*(.*(?:\n(?:[ \t]|- ).*)*)", header, re.MULTILINE)
    lines = [line.strip() for line in match[1].split("\n")] if match else []
    values = [line[2:] for line in lines if line.startswith("- ")]
    if not values:
        text = re.sub(r"^[>|]\S* ", "", " ".join(lines))
        flow = re.match(r"\[([^]]*)\]", text)
        values = flow[1].split(",") if flow else [text]
    # Without quotes, or a comment. What is printed cannot steer a terminal.
    quoted = [re.match(r"""\s*(["'])(.*?)\1""", value) for value in values]
    values = [
        match[2] if match else re.sub(r"(^|\s)#.*", "", value).strip()
        for match, value in zip(quoted, values, strict=True)
    ]
    return ["".join(filter(str.isprintable, value)) for value in values if value]


def imported_config(
    folder: Path, model: keras.Model, pair: Sequence[str], **fields: dict[str, Any]
) -> RunConfig:
    """The configuration of the run that a folder becomes; a language is "" if it is not known."""
    license = read_card(folder).license
    return RunConfig([], *pair, license=license, model=model.get_config(), **fields)


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
