"""The files that are translated, and what each is called in the output's folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_mt.documents.registry import format_name, format_of_suffix
from keras_mt.errors import InputError

# Names in the output's folder: what was refused, and the folder of what is begun.
ERRORS, PARTS = "errors.jsonl", ".parts"


class Found(NamedTuple):
    """A file that is translated."""

    path: Path
    format: str


def find_files(
    paths: Sequence[str | os.PathLike], output: str | os.PathLike, format: str | None = None
) -> tuple[dict[str, Found], list[Path]]:
    """The files to translate, by their names in the output; and files that are left out.

    The name of a file below a folder is its path from there. Left out are files below folders whose
    suffix tells no format, where none is given. InputError if a file is a pipe, two would be
    written to one, or there is none.
    """
    found, left_out = {}, []
    for given in map(Path, paths):
        for name, path in _below(given, output) if given.is_dir() else [(given.name, given)]:
            if given.is_dir() and not (format or format_of_suffix(path)):
                left_out.append(path)
                continue
            if path.exists() and not path.is_file():
                raise InputError(
                    f"{path} is a pipe or the like, which can be read only once: a stopped run "
                    "could not go on. Write it to a file, or give it to `keras-mt translate`."
                )
            if Path(name).parts[0] in (PARTS, ERRORS):
                raise InputError(f"{path} has a name that {output} needs: rename it.")
            if name in found and found[name].path.samefile(path):
                raise InputError(f"{path} is given twice.")
            if name in found:
                raise InputError(
                    f"{found[name].path} and {path} have one name, and each is written under its "
                    "name: give them names, or folders of output, of their own."
                )
            found[name] = Found(path, format_name(path, format))
    for name in found:
        for parent in map(Path.as_posix, Path(name).parents):
            if parent in found:
                raise InputError(
                    f"{found[parent].path} would be where {output} needs a folder for "
                    f"{found[name].path}: give them folders of output of their own."
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
