"""Translates files into a folder; what was stopped goes on where it was."""

import contextlib
import dataclasses
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_mt.documents.document import DocumentOptions, Refusal, lost_marks
from keras_mt.documents.registry import document_class, format_name
from keras_mt.documents.sources import CHANGED, DocumentFile, LinesFile
from keras_mt.errors import InputError
from keras_mt.files import DISK_ERRORS, atomic_write, disk_errors, owned, remove_leftovers
from keras_mt.options import MAX_LINE_BYTES
from keras_mt.text.fragment import Element, Fragment
from keras_mt.version import __version__

PART_LINES = 1000
# In the output's folder: the folder of what is begun, and what was refused.
_PARTS, _ERRORS = ".parts", "errors.jsonl"
# In the former: what the translations depend on, and the lock; and what the names of the files of
# each input end in (see `_Work`).
_WORK, _LOCK, _JOURNAL, _DONE = "work.json", "lock", ".jsonl", ".done"
_SHOWN = 200  # Characters of a refused text that its entry repeats.

# From texts to a translation for each, and why some, by index, have none.
Translate = Callable[[list[str]], tuple[Sequence[str | None], Mapping[int, str]]]


def translating(translator: Callable, markup: str | None = None) -> Translate:
    """The `translate` for `translate_files`, of a `Translator` or an `ExportedTranslator`."""

    def translate(texts):
        results = translator.hypotheses(texts, markup=markup)
        return [found[0].text if found else None for found in results], results.refusals

    return translate


class Report(dict):
    """The outcome of each file, by its name.

    Its `lines`, or the `texts` of a document; how many of them were `refused`; and of how many
    `warned`, since their translations lack marks or symbols.

    Attributes:
        failures: Why files as a whole were refused, by their names.

    Example:

    >>> report = Report({"a.txt": {"lines": 3, "refused": 1, "warned": 0}})
    >>> report.refused
    1
    """

    def __init__(self, files: Mapping[str, Any] = (), failures: Mapping[str, str] = ()):
        super().__init__(files)
        self.failures = dict(failures)

    @property
    def refused(self) -> int:
        """The number of texts that were refused."""
        return sum(done["refused"] for done in self.values())


def translate_files(
    translate: Translate,
    files: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    identity: Mapping[str, Any],
    *,
    hints: Mapping[str, Any] | None = None,
    format: str | None = None,
    part_lines: int = PART_LINES,
    max_line_bytes: int = MAX_LINE_BYTES,
    options: DocumentOptions | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Translates files into a folder, under their names.

    What was stopped goes on where it was, by the same call; a second process is refused meanwhile.
    A file is written when all of it is translated, and appears whole.

    Args:
        translate: Function from a list of texts to a translation for each, and why some, by index,
            have none. The same texts must give the same translations. A text of a document is a
            `keras_mt.text.Fragment`, whose translation may be one, too; otherwise places and
            letters say where the elements go.
        files: The files; a name that ends in `.gz` or `.zst` is of a compressed one, whose
            translation is compressed too.
        output: The folder.
        identity: What the translations depend on besides the files, such as the model's
            fingerprint; JSON, by names that errors use. The folder remembers it.
        hints: Names that errors use for a change of `identity["model"]`, with values.
        format: The format of all files, a key of `keras_mt.documents.registry.FORMATS`; None for
            that of each one's suffix.
        part_lines: The lines, or units of a document, that are translated and written together.
        max_line_bytes: The maximum bytes of a line; a longer one is refused.
        options: What formats may need to know.
        progress: Called with the lines that are done, and all.

    Returns:
        A `Report`; `output/errors.jsonl` names each text, and each file, that was refused, and each
        text that was warned of.

    Raises:
        InputError: If the folder was begun with another identity, two files have one name, a file
            would be overwritten, no format has a file's suffix, one is a pipe, another process
            writes into the folder, or the disk is full.

    Example:

    >>> def upper(texts):
    ...     return [text.upper() for text in texts], {}
    >>> _ = Path("a.txt").write_text("one\\ntwo\\n")
    >>> translate_files(upper, ["a.txt"], "translated", {"model": "upper"})
    {'a.txt': {'lines': 2, 'refused': 0, 'warned': 0}}
    >>> Path("translated/a.txt").read_text()
    'ONE\\nTWO\\n'
    """
    output, options = Path(output), options or DocumentOptions()
    if part_lines < 1:
        raise InputError(f"part_lines must be at least 1. Received: {part_lines}")
    parts, works = output / _PARTS, []
    for path, kind in formats_of(files, output, format).items():
        source = (
            LinesFile(path, part_lines, max_line_bytes)
            if kind == "lines"
            else DocumentFile(path, document_class(kind), part_lines, options)
        )
        works.append(_Work(path, output, kind, source, translate))
    settings = {"part_lines": part_lines, "max_line_bytes": max_line_bytes}
    settings |= dataclasses.asdict(options)
    identity = {"keras_mt": __version__, **settings, **identity}
    try:
        with owned(parts / _LOCK, f"{output} is being translated into"):
            for work in works:
                work.check_free()
            _remember(parts / _WORK, output, identity, hints or {})
            _translate(works, progress)
            report = _report(works, output)
            for path in (output / _ERRORS, *(work.output for work in works)):
                remove_leftovers(path)
            if not report.failures and not list(parts.glob("*" + _JOURNAL)):
                for path in (parts / _WORK, *parts.glob("*" + _DONE)):
                    path.unlink()
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise InputError(
            f"{error.filename} cannot be written: {error.strerror}. Make space, and give the same "
            "command again: what is done is kept."
        ) from error
    with contextlib.suppress(OSError):  # It is not empty.
        parts.rmdir()
    return report


def formats_of(
    files: Sequence[str | os.PathLike], output: str | os.PathLike, format: str | None = None
) -> dict[Path, str]:
    """The format of each file; InputError if one is a pipe, or two would be written to one."""
    formats, names = {}, {}
    for path in map(Path, files):
        if path.exists() and not path.is_file():
            raise InputError(
                f"{path} is a pipe or the like, which can be read only once: a stopped run "
                "could not go on. Write it to a file, or give it to `keras-mt translate`."
            )
        formats[path] = format_name(path, format)
        if path.name in (_PARTS, _ERRORS):
            raise InputError(f"{path} has a name that {output} needs: rename it.")
        if path.name in names:
            raise InputError(
                f"{names[path.name]} and {path} have one name, and each is written under its name: "
                "give them names, or folders of output, of their own."
            )
        names[path.name] = path
    return formats


def _remember(path, output, identity, hints):
    """Writes what the translations depend on, or checks that it is what was written."""
    found = json.loads(json.dumps({"identity": dict(identity), "hints": dict(hints)}))
    before = next(_records(path), (None, 0))[0]
    if before is None:
        path.unlink(missing_ok=True)
        _append(path, found)
        return
    other = _differing(before["identity"], found["identity"])
    if "model" in other:
        # An option may be what makes the model another.
        changed = _differing(before["hints"], found["hints"])
        other.remove("model")
        other += [f"`{name}`" for name in changed] or ["model"]
    if other:
        raise InputError(
            f"{output} was begun with another {' and '.join(other)}: give the command that it was "
            "begun with, or a new folder."
        )


def _differing(before, found):
    return [name for name in sorted({**before, **found}) if before.get(name) != found.get(name)]


def _translate(works, progress):
    for work in works:
        work.begin()
    done, total = 0, sum(work.index["units"] for work in works if not work.failure)
    progress(done, total)
    for work in works:
        for units in work.steps():
            done += units
            progress(done, total)


def _report(works, output):
    """Writes what was refused or warned of; what an earlier command wrote of other files stays."""
    failures = {work.path.name: work.failure for work in works if work.failure}
    found = {path.name.removesuffix(_DONE): path for path in output.glob(f"{_PARTS}/*{_DONE}")}
    errors, refused, warned = output / _ERRORS, Counter(), Counter()
    with atomic_write(errors) as temporary, open(temporary, "wb") as file:
        if errors.exists():
            with open(errors, "rb") as before:
                others = (
                    line for line in before if json.loads(line)["file"] not in failures | found
                )
                file.writelines(others)
        for name, path in sorted(found.items()):
            with open(path, "rb") as done:
                for entry in itertools.islice(done, 1, None):  # The first one is the index.
                    file.write(entry)
                    (refused if "error" in json.loads(entry) else warned)[name] += 1
        for name, failure in failures.items():
            file.write(_entry(name, Refusal("", failure)))
        size = file.tell()
    if not size:
        errors.unlink()
    report = Report(failures=failures)
    for name, work in ((work.path.name, work) for work in works if not work.failure):
        counts = {"refused": refused[name], "warned": warned[name]}
        report[name] = {work.source.units_are: work.index["units"], **counts}
    return report


class _Work:
    """The work on a file.

    Its journal has the file's index, and then a line for each block that is translated. When the
    output is written, another file, which is there first, has the index and what was refused.
    """

    def __init__(self, path, output, kind, source: LinesFile | DocumentFile, translate):
        self.path, self.output, self.kind = path, output / path.name, kind
        self.source, self.translate = source, translate
        self.journal, self.done = (
            output / _PARTS / (path.name + suffix) for suffix in (_JOURNAL, _DONE)
        )
        self.index, self.failure = None, None

    def check_free(self):
        """Raises InputError if there is a file in the output's place that is not of this work."""
        if self.output.exists() and not self.done.exists():
            raise InputError(f"{self.output} exists and is not overwritten: give a new folder.")

    @contextlib.contextmanager
    def _refusing(self):
        """An InputError refuses the file, by its name."""
        try:
            yield
        except InputError as error:
            name = "" if str(self.path) in str(error) else f"{self.path}: "
            self.failure = f"{name}{error}"

    def begin(self):
        """Reads the file, which must be what it was."""
        with self._refusing():
            self._stamp = self._stamp_now()
            self.index = self._indexed()
            for path in (self.done, self.journal):
                before = next(_records(path), (self.index, 0))[0]
                if before["format"] != self.kind:
                    raise InputError(
                        f"it was begun as {before['format']}, and not as {self.kind}: give "
                        "--format as it was, or a new folder."
                    )
                if before != self.index:
                    raise InputError(f"{self.path} {CHANGED}")

    def _stamp_now(self):
        status = os.stat(self.path)
        return status.st_size, status.st_mtime_ns

    def _indexed(self):
        units, digests = 0, []
        for block in self.source.blocks():
            units += len(block.units)
            digests.append(block.digest)
        return {"format": self.kind, "units": units, "digests": digests}

    def steps(self) -> Iterator[int]:
        """Does what is left of the work; yields the units of each block that is done."""
        if self.failure:
            return
        if self.output.exists():
            self.journal.unlink(missing_ok=True)
            yield self.index["units"]
            return
        with self._refusing():
            kept = self._kept()
            pairs = itertools.zip_longest(self.index["digests"], self.source.blocks())
            for number, (digest, block) in enumerate(pairs, 1):
                if block is None or block.digest != digest:
                    raise InputError(f"{self.path} {CHANGED}")
                if number >= kept:
                    _append(self.journal, self._translated(block))
                yield len(block.units)
            if self._stamp_now() != self._stamp and self._indexed() != self.index:
                raise InputError(f"{self.path} {CHANGED}")
            self._write()

    def _kept(self):
        """Begins the journal, or cuts off what a kill has left half; returns its records."""
        ends = [end for _, end in _records(self.journal)]
        if ends:
            os.truncate(self.journal, ends[-1])
            return len(ends)
        self.journal.unlink(missing_ok=True)
        _append(self.journal, self.index)
        return 1

    def _translated(self, block):
        """The journal's record of a block."""
        units, refusals = block.units, dict(block.refusals)
        translations = ["" for _ in units]
        if chosen := [i for i, unit in enumerate(units) if unit.text]:
            found, reasons = self.translate([units[i].text for i in chosen])
            for row, i in enumerate(chosen):
                translations[i] = found[row]
                if row in reasons:
                    refusals[i] = Refusal(units[i].where, reasons[row], units[i].text)
        for i in refusals:
            translations[i] = None
        entries = [_entry(self.path.name, refusals[i]).decode() for i in sorted(refusals)]
        if self.kind != "lines":
            for unit, translation in zip(units, translations, strict=True):
                if translation and (lost := lost_marks(unit.text, translation)):
                    warning = Refusal(unit.where, f"its translation lacks {lost}", unit.text)
                    entries.append(_entry(self.path.name, warning, "warning").decode())
        return {"translations": list(map(_recorded, translations)), "entries": entries}

    def _write(self):
        # The output appears last: with it the work is done.
        with (
            atomic_write(self.output) as temporary,
            disk_errors(self.done),
            open(self.done, "wb") as file,
        ):
            file.write(json.dumps(self.index).encode() + b"\n")

            def translations():
                for record, _ in itertools.islice(_records(self.journal), 1, None):
                    file.writelines(entry.encode() for entry in record["entries"])
                    yield from map(_read, record["translations"])

            for refusal in self.source.write(translations(), temporary):
                file.write(_entry(self.path.name, refusal))
            file.flush()
            os.fsync(file.fileno())
        self.journal.unlink()


def _recorded(translation):
    """A translation as JSON has it: with its elements, if it has any."""
    elements = getattr(translation, "elements", ())
    return [translation, elements] if elements else translation


def _read(recorded):
    if not isinstance(recorded, list):
        return recorded
    text, elements = recorded
    return Fragment(text, (Element(*element) for element in elements))


def _append(path, record):
    with disk_errors(path), open(path, "ab") as file:
        file.write(json.dumps(record).encode() + b"\n")
        if any(record.get("translations", [True])):  # A block without a text need not wait.
            file.flush()
            os.fsync(file.fileno())


def _records(path) -> Iterator[tuple[dict[str, Any], int]]:
    """The whole records of a file, if there is one, and where each ends."""
    end = 0
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for line in file:
            end += len(line)
            try:
                record = json.loads(line)
            except ValueError:
                return
            if line.endswith(b"\n"):
                yield record, end


def _entry(name, refusal, kind="error"):
    fields = {"file": name, "where": refusal.where, kind: refusal.reason}
    fields["text"] = refusal.text[:_SHOWN]
    found = {key: value for key, value in fields.items() if value}
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
