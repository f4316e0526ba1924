"""The files that are translated, and what each is called in the output's folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_mt.documents.registry import FORMATS, format_of
from keras_mt.errors import InputError

# Names in the output's folder: what was refused, and the folder of what is begun.
ERRORS, PARTS = "errors.jsonl", ".parts"


def find_files(
    paths: Sequence[str | os.PathLike], output: str | os.PathLike, format: str | None = None
) -> tuple[dict[str, tuple[Path, str]], list[Path]]:
    """The files and their formats, by their names in the output; and files that are left out.

    The name of a file below a folder is its path from there. Left out are files below folders whose
    suffix tells no format, where none is given. InputError if a file is a pipe, two would be
    written to one, or there is none.
    """
    found, left_out = {}, []
    for given in map(Path, paths):
        for name, path in _below(given, output) if given.is_dir() else [(given.name, given)]:
            kind = format or format_of(path)
            if given.is_dir() and not kind:
                left_out.append(path)
                continue
            if kind not in FORMATS:
                known = ", ".join(f"{name} ({' '.join(own)})" for name, own in FORMATS.items())
                what = f"`format` {format} is not" if format else f"{path} has no suffix of"
                raise InputError(f"{what} a known format: {known}. Give `format` one of these.")
            if path.exists() and not path.is_file():
                raise InputError(
                    f"{path} is a pipe or the like, which is read only once: write it to a file."
                )
            if Path(name).parts[0] in (PARTS, ERRORS):
                raise InputError(f"{path} has a name that {output} needs: rename it.")
            if name in found and found[name][0].samefile(path):
                raise InputError(f"{path} is given twice.")
            if name in found:
                raise InputError(
                    f"{found[name][0]} and {path} have one name: give each a folder of output."
                )
            found[name] = path, kind
    for name in found:
        for parent in map(Path.as_posix, Path(name).parents):
            if parent in found:
                raise InputError(
                    f"{found[parent][0]} would be where {output} needs a folder for "
                    f"{found[name][0]}: give each a folder of output."
                )
    if paths and not found:
        raise InputError(f"{' and '.join(map(str, paths))} holds no file of a known format.")
    return found, left_out


def _below(folder, output) -> Iterator[tuple[str, Path]]:
    """The files below a folder and their paths from there, but hidden ones and the output's.

    Links that lead out of the folder, and those to folders, are left out.
    """
    root, output = folder.resolve(), Path(output).resolve()
    if root == output:
        raise InputError(f"{folder} cannot be its own output: give another folder.")
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(x for x in folders if Path(parent, x).resolve() != output)
        folders[:] = (name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(names) if not name.startswith(".")):
            if path.is_file() and path.resolve().is_relative_to(root):
                yield path.relative_to(folder).as_posix(), path


def _refuse(error):
    raise error
