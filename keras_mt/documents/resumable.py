"""Translates files into a folder; what was stopped goes on where it was."""

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_mt.documents.confidence import write_report
from keras_mt.documents.document import lost_marks
from keras_mt.documents.finding import ERRORS, PARTS, find_files
from keras_mt.documents.registry import document_class
from keras_mt.documents.sources import DocumentFile, LinesFile
from keras_mt.errors import InputError
from keras_mt.files import DiskError, atomic_write, check_new, disk_errors, owned, remove_leftovers
from keras_mt.options.search import MAX_LINE_BYTES
from keras_mt.text.fragment import Element, Fragment
from keras_mt.version import __version__

PART_LINES = 1000
# In the folder of what is begun: a lock, and a journal for each file, named after it.
_LOCK, _JOURNAL = ".lock", ".jsonl"
_SHOWN = 200  # Characters of a refused text that its entry repeats.

# From texts to a translation for each, and why some, by index, have none; and for a report, their
# measures of confidence, each a dict or None.
Translate = Callable[[list[str]], tuple]


def translate_files(
    translate: Translate,
    files: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    identity: Mapping[str, Any],
    *,
    format: str | None = None,
    part_lines: int = PART_LINES,
    max_line_bytes: int = MAX_LINE_BYTES,
    target_language: str | None = None,
    retranslate: bool = False,
    report: str | os.PathLike | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:
    """Translates files into a folder, under their names or, below a folder, their paths from there.

    What was stopped goes on where it was, by the same call; a second process is refused meanwhile.
    A file is written when all of it is translated, and appears whole.

    Args:
        translate: Function from a list of texts to a translation for each, and why some, by index,
            have none. The same texts must give the same translations. A text of a document is a
            `keras_mt.text.Fragment`, whose translation may be one, too; otherwise places and
            letters say where the elements go.
        files: The files; a name that ends in `.gz` or `.zst` is of a compressed one, whose
            translation is compressed too. A folder stands for the files of known formats below it,
            without hidden ones and links out of it.
        output: The folder.
        identity: What the translations depend on besides the files, such as the model's
            fingerprint; JSON, by names that errors use. The folder remembers it.
        format: The format of all files, a key of `keras_mt.documents.registry.FORMATS`; None for
            that of each one's suffix.
        part_lines: The lines, or units of a document, that are translated and written together.
        max_line_bytes: The maximum bytes of a line; a longer one is refused.
        target_language: The code of the translations' language, which some formats name.
        retranslate: Whether entries of a document that have a translation get a new one.
        report: A file to write that tells how confident the translations are, as `write_report`
            does; the same call writes it anew. Then `translate` returns a third list, for each text
            a dict with `mean_log_prob` and `warnings`, or None.
        progress: Called with the lines that are done, and all.

    Returns:
        For each file, by its name, the number of its `lines`, or of a document's `texts`; how many
        of them were `refused`; and of how many `warned`, since their translations lack marks or
        symbols. A file that was refused as a whole has an `error` alone. `output/errors.jsonl`
        names each text, and each file, that was refused, and each text that was warned of.

    Raises:
        InputError: If a file was begun with another identity, two files have one name, a file would
            be overwritten, no format has a file's suffix, one is a pipe, another process writes
            into the folder, or the disk is full.

    Example:

    >>> def upper(texts):
    ...     return [text.upper() for text in texts], {}
    >>> _ = Path("a.txt").write_text("one\\ntwo\\n")
    >>> translate_files(upper, ["a.txt"], "translated", {"model": "upper"})
    {'a.txt': {'lines': 2, 'refused': 0, 'warned': 0}}
    >>> Path("translated/a.txt").read_text()
    'ONE\\nTWO\\n'
    """
    output = Path(output)
    if part_lines < 1:
        raise InputError(f"part_lines must be at least 1. Received: {part_lines}")
    options = {"target_language": target_language, "retranslate": retranslate}
    settings = {"part_lines": part_lines, "max_line_bytes": max_line_bytes, **options}
    settings["report"] = report and os.path.abspath(report)
    identity = json.loads(json.dumps({"keras_mt": __version__, **identity, **settings}))
    works = []
    for name, (path, kind) in find_files(files, output, format)[0].items():
        if kind == "lines":
            open_source = functools.partial(LinesFile, path, part_lines, max_line_bytes)
        else:
            read = functools.partial(document_class(kind), **options)
            open_source = functools.partial(DocumentFile, path, part_lines, read)
        works.append(_Work(name, path, output, open_source, identity | {"format": kind}))
    written = [output / name for name in (ERRORS, *(work.name for work in works))]
    if report is not None and Path(report).resolve() in [path.resolve() for path in written]:
        raise InputError(f"report={report} is a name that {output} needs: give another one.")
    try:
        lock = output / PARTS / _LOCK
        with disk_errors(output), owned(lock, f"{output} is being translated into"):
            is_begun = any([work.check() for work in works])
            if report is not None and not is_begun:  # Else it is that of the same command.
                check_new(report)
            _translate(works, translate, progress)
            if report is not None:
                write_report(report, {work.name: work.confidence() for work in works})
            outcome = _report(works, output)
    except DiskError as error:
        raise InputError(
            f"{error.filename} cannot be written: {error.strerror}. Make space, and give the same "
            "command again: what is done is kept."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # It is not empty.
            (output / PARTS).rmdir()
    return outcome


def _translate(works, translate, progress):
    for work in works:
        work.begin()
    begun = [work for work in works if not work.failure]
    done, total = sum(work.done for work in begun), sum(work.head["units"] for work in begun)
    progress(done, total)
    for work in begun:
        for units in work.steps(translate):
            done += units
            progress(done, total)


def _report(works, output):
    """Writes what was refused or warned of, and removes the journals if all is done."""
    parts = output / PARTS
    found = filter(Path.is_file, parts.rglob(f"*{_JOURNAL}"))
    journals = {x.relative_to(parts).as_posix().removesuffix(_JOURNAL): x for x in found}
    done = [name for name in sorted(journals) if (output / name).exists()]
    report, errors = {work.name: work.counts() for work in works}, output / ERRORS
    with atomic_write(errors) as new, open(new, "w", encoding="utf-8", errors="replace") as file:
        if errors.exists():  # What an earlier command wrote of other files stays.
            with open(errors, encoding="utf-8") as before:
                others = (x for x in before if json.loads(x)["file"] not in {*report, *done})
                file.writelines(others)
        found = itertools.chain(
            ((n, x) for n in done for r in _records(journals[n]) for x in r.get("entries", ())),
            ((name, counts) for name, counts in report.items() if "error" in counts),
        )
        for name, entry in found:
            if "refused" in report.get(name, ()):
                report[name]["refused" if "error" in entry else "warned"] += 1
            file.write(json.dumps({"file": name, **entry}, ensure_ascii=False) + "\n")
        size = file.tell()
    if not size:
        errors.unlink()
    remove_leftovers(errors, *(work.output for work in works))
    if len(done) == len(journals) and not any(work.failure for work in works):
        for path in journals.values():
            path.unlink()
        for folder, *_ in os.walk(parts, topdown=False):
            with contextlib.suppress(OSError):  # The lock is in the uppermost.
                os.rmdir(folder)
    return report


class _Work:
    """The work on a file.

    Its journal has a head: what the translations depend on, and digests of the file's blocks. A
    record follows for each block that is translated, and one of what could not be written.
    """

    def __init__(self, name, path, output, open_source, identity) -> None:
        self.name, self.path, self.output = name, path, output / name
        self._open, self._identity = open_source, identity
        self._journal = output / PARTS / (name + _JOURNAL)
        self.head, self.failure = None, None

    def check(self):
        """True if the file was begun; InputError if otherwise, or it would be overwritten."""
        before = next(_records(self._journal), None)
        if before is None:
            if self.output.exists():
                raise InputError(f"{self.output} exists and is not overwritten: give a new folder.")
            return False
        old, new = before.get("identity", {}), self._identity
        other = {name for name in old | new if old.get(name) != new.get(name)}
        # An option may be what makes the model another.
        other = (other - {"model"}) or other
        if other:
            raise InputError(
                f"{self.output.parent} was begun with another "
                f"{' and '.join(f'`{name}`' for name in sorted(other))}: give the command that it "
                "was begun with, or a new folder."
            )
        return True

    @contextlib.contextmanager
    def _refusing(self):
        """An InputError refuses the file, by its name."""
        try:
            yield
        except InputError as error:
            name = "" if str(self.path) in str(error) else f"{self.path}: "
            self.failure = f"{name}{error}"

    def _check_same(self, is_same):
        if not is_same:
            raise InputError(
                f"{self.path} has changed since its translation began: put it back as it was, or "
                "give a new folder."
            )

    def begin(self):
        """Reads the file, which must be what it was."""
        with self._refusing():
            source = self._open()
            blocks = [(len(units), digest) for units, digest in source.blocks()]
            self.head = {
                "identity": self._identity,
                "units": sum(units for units, _ in blocks),
                "digests": [digest for _, digest in blocks],
            }
            self._units_are = source.units_are
            self._kept = sum(1 for _ in _records(self._journal))
            # Those that were translated before.
            kept = len(blocks) if self.output.exists() else max(self._kept - 1, 0)
            self.done = sum(units for units, _ in blocks[:kept])
            self._check_same(next(_records(self._journal), self.head) == self.head)

    def steps(self, translate) -> Iterator[int]:
        """Does what is left of the work; yields the units of each block."""
        if self.output.exists():
            return
        with self._refusing():
            source, digests, kept = self._open(), self.head["digests"], self._kept
            if not kept:
                self._journal.parent.mkdir(parents=True, exist_ok=True)
                self._append(self.head)
            pairs = itertools.zip_longest(digests, source.blocks(), fillvalue=([], ""))
            for number, (digest, (units, found)) in enumerate(pairs, 1):
                self._check_same(found == digest)
                if number >= kept:
                    self._append(_translated(units, translate, source.units_are == "texts"))
                    yield len(units)
            with atomic_write(self.output) as temporary:
                refusals = source.write(self._translations(), temporary)
                if kept <= 1 + len(digests):
                    self._append({"entries": [_entry(*refusal) for refusal in refusals]})

    def _append(self, record):
        with disk_errors(self._journal), open(self._journal, "ab") as file:
            # The newline comes first: a record that a kill leaves half is a line by itself.
            file.write(b"\n" + json.dumps(record).encode())
            if any(record.get("translations", [True])):  # A block without a text need not wait.
                file.flush()
                os.fsync(file.fileno())

    def _translations(self):
        for record in _records(self._journal):
            for new in record.get("translations", ()):
                is_fragment = isinstance(new, list)
                yield Fragment(new[0], map(Element._make, new[1])) if is_fragment else new

    def confidence(self):
        """The confidence in each translation, for a report."""
        for record in _records(self._journal):
            yield from record.get("confidence", ())

    def counts(self):
        """The outcome of the file, with no text refused or warned of yet."""
        if self.failure:
            return {"error": self.failure}
        return {self._units_are: self.head["units"], "refused": 0, "warned": 0}


def _translated(units, translate, with_warnings):
    """The journal's record of a block."""
    chosen = [i for i, unit in enumerate(units) if unit.text and not unit.error]
    found, reasons, *measures = translate([units[i].text for i in chosen]) if chosen else ((), {})
    translations = dict(zip(chosen, found, strict=True))
    errors = {i: unit.error for i, unit in enumerate(units) if unit.error}
    errors |= {chosen[row]: reason for row, reason in reasons.items()}
    entries = [_entry(units[i].where, errors[i], units[i].text) for i in sorted(errors)]
    for i, new in translations.items() if with_warnings else ():
        if new and (lost := lost_marks(units[i].text, new)):
            warning = units[i].where, f"its translation lacks {lost}", units[i].text, "warning"
            entries.append(_entry(*warning))
    found = [None if i in errors else translations.get(i, "") for i in range(len(units))]
    record = [[new, new.elements] if getattr(new, "elements", ()) else new for new in found]
    shown = ((units[i].where, units[i].text[:_SHOWN], (found[i] or "")[:_SHOWN]) for i in chosen)
    confidence = [
        {"where": where, "text": text, "translation": translation, **own}
        for (where, text, translation), own in zip(shown, *measures or [()], strict=False)
        if own
    ]
    return {"translations": record, "entries": entries, "confidence": confidence}


def _entry(where, reason, text, kind="error"):
    fields = {"where": where, kind: reason, "text": text[:_SHOWN]}
    return {name: value for name, value in fields.items() if value}


def _records(path):
    """The whole records of a journal, if there is one."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                yield json.loads(line)
