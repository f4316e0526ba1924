"""Translates files into a folder, with all processes that are given the same folder."""

import collections
import contextlib
import dataclasses
import itertools
import json
import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_mt.compressed import bare_name
from keras_mt.documents.formats import DocumentOptions, Refusal, format_name
from keras_mt.documents.leases import Leases, attempt, share
from keras_mt.documents.sources import Document, Lines
from keras_mt.errors import InputError
from keras_mt.files import DISK_ERRORS, disk_errors
from keras_mt.options import MAX_LINE_BYTES
from keras_mt.version import __version__

PART_LINES = 1000
# In the output's folder: the folder of what is begun, and what was refused.
_PARTS, _ERRORS = ".parts", "errors.jsonl"
# In the former: what the translations depend on, and the lease of who ends.
_WORK, _FINISH = "work.json", "finish.lease"
_SHOWN = 200  # Characters of a refused text that its entry repeats.

# From texts and their markup to a translation for each, and why some, by index, have none.
Translate = Callable[[list[str], str | None], tuple[Sequence[str | None], Mapping[int, str]]]


def translating(translator: Callable, **options: Any) -> Translate:
    """What `translate_files` asks, of a `Translator` or an `ExportedTranslator`.

    `options` are arguments of its `hypotheses`, such as `glossary`.

    >>> translate = translating(translator, target_language="fr")  # doctest: +SKIP
    >>> translate(["A ball."], None)  # doctest: +SKIP
    (['Un ballon.'], {})
    """

    def translate(texts, markup):
        results = translator.hypotheses(texts, markup=markup, **options)
        return [found[0].text if found else None for found in results], results.refusals

    return translate


class Report(dict):
    """What became of each file, by its name: its `lines`, and how many were `refused`.

    Attributes:
        failures: Why files as a whole were refused, by their names.

    Example:

    >>> report = Report({"a.txt": {"lines": 3, "refused": 1}})
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
    markup: str | None = None,
    part_lines: int = PART_LINES,
    max_line_bytes: int = MAX_LINE_BYTES,
    options: DocumentOptions | None = None,
    lease_seconds: float = 30,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Translates files into a folder, under their names.

    Processes, on machines that see the folder, may do so at once, and divide the work. What was
    stopped goes on where it was; a file is written when all of it is translated, and appears whole.

    Args:
        translate: Function from a list of texts and their markup to a translation for each, and why
            some, by index, have none. The same texts must give the same translations.
        files: The files; a name that ends in `.gz` or `.zst` is of a compressed one, whose
            translation is compressed too.
        output: The folder.
        identity: What the translations depend on besides the files, such as the model's
            fingerprint; JSON, by names that errors use. The folder remembers it.
        hints: Names that errors use for a change of `identity["model"]`, with values.
        format: The format of all files, a key of `keras_mt.documents.formats.FORMATS`; None for
            that of each one's suffix.
        markup: "html" if each line of a file of lines is a fragment of HTML.
        part_lines: The lines, or units of a document, that are translated and written together.
        max_line_bytes: The maximum bytes of a line; a longer one is refused.
        options: What formats may need to know.
        lease_seconds: How long a process may give no sign of life before another takes over.
        progress: Called with the lines that are done, and all.

    Returns:
        A `Report`; `output/errors.jsonl` names each text, and each file, that was refused.

    Raises:
        InputError: If the folder was begun with another identity, two files have one name, a file
            would be overwritten, no format has a file's suffix, or the disk is full.

    Example:

    >>> def upper(texts, markup):
    ...     return [text.upper() for text in texts], {}
    >>> _ = Path("a.txt").write_text("one\\ntwo\\n")
    >>> translate_files(upper, ["a.txt"], "translated", {"model": "upper"})
    {'a.txt': {'lines': 2, 'refused': 0}}
    >>> Path("translated/a.txt").read_text()
    'ONE\\nTWO\\n'
    """
    output, options = Path(output), options or DocumentOptions()
    if part_lines < 1:
        raise InputError(f"part_lines must be at least 1. Received: {part_lines}")
    works = []
    for path, kind in _formats(files, output, format).items():
        source = (
            Lines(path, part_lines, max_line_bytes, markup)
            if kind == "lines"
            else Document(path, kind, part_lines, options)
        )
        works.append(_Work(path, output, kind, source, translate))
    settings = {"part_lines": part_lines, "markup": markup, "max_line_bytes": max_line_bytes}
    settings |= dataclasses.asdict(options)
    identity = {"keras_mt": __version__, **settings, **identity}
    try:
        with Leases(lease_seconds) as leases:
            _remember(output, identity, hints or {}, leases)
            for work in works:
                work.check_free()
            _translate(works, leases, progress)
            with leases.waited_for(output / _PARTS / _FINISH):
                return _finish(works, output)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise InputError(
            f"{error.filename} cannot be written: {error.strerror}. Make space, and give the same "
            "command again: what is done is kept."
        ) from error


def _formats(files, output, format):
    """The format of each file; InputError if two would be written to one place."""
    formats, names = {}, {}
    for path in map(Path, files):
        formats[path] = format_name(path, format)
        if path.name in (_PARTS, _ERRORS, _WORK, _FINISH):
            raise InputError(f"{path} has a name that {output} needs: rename it.")
        if path.name in names:
            raise InputError(
                f"{names[path.name]} and {path} have one name, and each is written under its name: "
                "give them names, or folders of output, of their own."
            )
        names[path.name] = path
    return formats


def _remember(output, identity, hints, leases):
    """Writes what the translations depend on, or checks that it is what was written."""
    folder = output / _PARTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _WORK
    text = json.dumps({"identity": dict(identity), "hints": dict(hints)}, indent=2)
    if not path.exists():
        with leases.waited_for(folder / f"{_WORK}.lease"):
            if not path.exists():
                _write(path, text.encode())
    before, found = json.loads(path.read_bytes()), json.loads(text)
    other = _differing(before["identity"], found["identity"])
    if "model" in other:
        # An option may be what makes the model another.
        changed = _differing(before["hints"], found["hints"])
        other = [name for name in other if name != "model"] + (changed or ["model"])
    if other:
        raise InputError(
            f"{output} was begun with another {' and '.join(other)}: give the command that it was "
            "begun with, or a new folder."
        )


def _differing(before, found):
    return [name for name in sorted({**before, **found}) if before.get(name) != found.get(name)]


def _translate(works, leases, progress):
    for _ in share([work.begin() for work in works], leases):
        pass
    for work in works:
        work.load()
    works = [work for work in works if not work.failure]
    done, total = 0, sum(work.found["lines"] for work in works)
    progress(done, total)
    late = []

    def join(work):
        work.source.close()
        if not work.failure and not attempt(work.join(), leases):
            late.append(work.join())

    for work in works:
        if not work.left:
            join(work)
    for task in share(itertools.chain(*(work.parts() for work in works)), leases):
        done += task.lines
        progress(done, total)
        task.work_on.left -= 1
        if not task.work_on.left:
            join(task.work_on)
    for _ in share(late, leases):
        pass


def _finish(works, output):
    """Removes the parts of the files that are done, and writes what was refused."""
    report = Report(failures={work.path.name: work.failure for work in works if work.failure})
    folder = output / _PARTS
    with _whole(output / _ERRORS, folder) as temporary, open(temporary, "wb") as file:
        for path in sorted(folder.glob("*/done.json")):
            with open(path.with_name("errors"), "rb") as errors:
                shutil.copyfileobj(errors, file)
        for name, failure in report.failures.items():
            file.write(_entry(name, Refusal("", failure)))
        size = file.tell()
    if not size:
        (output / _ERRORS).unlink(missing_ok=True)
    for work in works:
        if not work.failure:
            report[work.path.name] = work.tidy()
    for path in filter(Path.is_file, folder.glob(".*")):  # Of what was killed while it wrote.
        path.unlink(missing_ok=True)
    return report


@dataclasses.dataclass
class _Task:
    """Something of a file that leaves a marker when it is done."""

    work_on: "_Work"
    marker: Path
    do: Callable[[], None]
    lines: int = 0

    @property
    def lease(self) -> Path:
        return self.marker.with_name(self.marker.name + ".lease")

    def is_done(self) -> bool:
        # Its parts are removed when the file is done.
        work = self.work_on
        return self.marker.exists() or work.failure is not None or work.done.exists()

    def taken(self) -> None:
        # Elsewhere in the file there are fewer others.
        if self.lines:
            self.work_on.go_elsewhere()

    def work(self) -> None:
        try:
            self.do()
        except InputError as error:
            self.work_on.failure = str(error)
        except FileNotFoundError:
            # Another, which took this to be dead, has done the file.
            if not self.is_done():
                raise


class _Work:
    """The work on a file: OUTPUT/.parts/NAME with its index, its parts, and what was refused."""

    def __init__(self, path, output, kind, source: Lines | Document, translate):
        self.path, self.output, self.kind = path, output / path.name, kind
        self.source, self.translate = source, translate
        self.folder = output / _PARTS / path.name
        self.done, self.index = self.folder / "done.json", self.folder / "index.json"
        self.failure, self.found, self.left = None, None, None
        self._numbers = collections.deque()  # The parts that it has not looked at.

    def check_free(self):
        """Raises InputError if there is a file in the output's place that is not of this work."""
        if self.output.exists() and not self.index.exists():
            raise InputError(f"{self.output} exists and is not overwritten: give a new folder.")
        self.folder.mkdir(exist_ok=True)
        if not self.output.exists():  # Somebody has removed it: it is made again.
            self.done.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _naming(self):
        """Errors name the file."""
        try:
            yield
        except InputError as error:
            name = "" if str(self.path) in str(error) else f"{self.path}: "
            raise InputError(f"{name}{error}") from error

    def begin(self):
        def do():
            stamp = self._stamp()
            with self._naming():
                found = {"format": self.kind, **stamp, **self.source.index()}
            _write(self.index, json.dumps(found).encode())

        return _Task(self, self.index, do)

    def _stamp(self):
        status = os.stat(self.path)
        return {"bytes": status.st_size, "modified": status.st_mtime_ns}

    def load(self):
        """Reads the index, which another process or an earlier command may have written."""
        if self.failure:
            return
        self.found = json.loads(self.index.read_bytes())
        if self.found["format"] != self.kind:
            self.failure = (
                f"{self.path} was begun as {self.found['format']}, and not as {self.kind}: give "
                "--format as it was, or a new folder."
            )
        try:
            self._check_unchanged()
        except InputError as error:
            self.failure = str(error)
        self.left = len(self.found["digests"])

    def _check_unchanged(self):
        """Raises InputError unless the file is what was indexed; a copy of it is too."""
        if self.failure or self._stamp().items() <= self.found.items():
            return
        with self._naming():
            now = self.source.index()
        if not now.items() <= self.found.items():
            raise InputError(
                f"{self.path} has changed since its translation began: put it back as it was, or "
                "give a new folder."
            )

    def parts(self) -> Iterator[_Task]:
        size, lines = self.source.part_lines, self.found["lines"]
        self._numbers.extend(range(len(self.found["digests"])))
        while self._numbers:
            number = self._numbers.popleft()
            marker = self._part(number)
            count = min(size, lines - number * size)
            yield _Task(self, marker, lambda number=number: self._translate(number), count)

    def go_elsewhere(self):
        """Goes on at a random part, unless all before it would have to be unpacked."""
        if self._numbers and bare_name(self.path) == str(self.path):
            self._numbers.rotate(random.randrange(len(self._numbers)))

    def _part(self, number, suffix=".part"):
        return self.folder / f"{number:07}{suffix}"

    def _translate(self, number):
        with self._naming():
            units, refusals = self.source.read(self.found, number)
        translations = ["" for _ in units]
        for markup in dict.fromkeys(unit.markup for unit in units if unit.text):
            chosen = [i for i, unit in enumerate(units) if unit.markup == markup and unit.text]
            found, reasons = self.translate([units[i].text for i in chosen], markup)
            for row, i in enumerate(chosen):
                translations[i] = found[row]
                if row in reasons:
                    refusals[i] = Refusal(units[i].where, reasons[row], units[i].text)
        for i in refusals:
            translations[i] = None
        # First what was refused: where a part is, that is whole too.
        errors = [_entry(self.path.name, refusals[i]) for i in sorted(refusals)]
        if errors:
            _write(self._part(number, ".errors"), b"".join(errors))
        _write(self._part(number), self.source.pack(translations))

    def join(self):
        return _Task(self, self.done, self._join)

    def _join(self):
        self._check_unchanged()
        numbers = range(len(self.found["digests"]))
        errors = self.folder / "errors"
        with _whole(self.output, self.folder) as temporary:
            with self._naming():
                parts = [self._part(i) for i in numbers]
                refusals = self.source.write(self.found, parts, temporary)
            refused = 0
            with _whole(errors) as listed, open(listed, "wb") as file:
                for path in filter(Path.exists, (self._part(i, ".errors") for i in numbers)):
                    entries = path.read_bytes()
                    file.write(entries)
                    refused += entries.count(b"\n")
                for refusal in refusals:
                    refused += bool(file.write(_entry(self.path.name, refusal)))
        done = {"lines": self.found["lines"], "refused": refused}
        _write(self.done, json.dumps(done).encode())

    def tidy(self):
        """Removes the parts, and what processes that were killed left; returns the totals."""
        done = json.loads(self.done.read_bytes())
        for path in {*self.folder.iterdir()} - {self.done, self.index, self.folder / "errors"}:
            path.unlink(missing_ok=True)
        return done


def _entry(name, refusal):
    fields = {"file": name, "where": refusal.where, "error": refusal.reason}
    fields["text"] = refusal.text[:_SHOWN]
    found = {key: value for key, value in fields.items() if value}
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _write(path, data):
    with _whole(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def _whole(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """As `atomic_write`, where processes on several machines may write the same.

    `atomic_write` tells a dead process's leavings by locks, which shared folders may not have.
    """
    # Its end is the path's: it says how to compress.
    temporary = (folder or path.parent) / f".{secrets.token_hex(8)}.{path.name}"
    with disk_errors(path):
        try:
            yield temporary
            if temporary.stat().st_size:  # An empty file is whole once it has its name.
                with open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
