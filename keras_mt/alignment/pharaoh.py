"""Word alignments in files, in Pharaoh's format."""

import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from keras_mt.data.corpus import lines
from keras_mt.errors import InputError
from keras_mt.files import atomic_write

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def pharaoh_line(links: np.ndarray) -> str:
    """The links of one sentence pair, `[links, 2]`, as a line of Pharaoh's format.

    >>> pharaoh_line([[0, 0], [1, 2]])
    '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in links)


def write_pharaoh(path: str | os.PathLike, links: Iterable[np.ndarray]) -> None:
    """Writes word alignments in Pharaoh's format: a line such as `0-0 1-2` for each sentence pair.

    Args:
        path: The file.
        links: For each pair integers `[links, 2]`: a source's and a target's index, from 0.

    Example:

    >>> write_pharaoh("links.txt", [[[0, 0], [1, 2]], []])
    >>> [links.tolist() for links in read_pharaoh("links.txt")]
    [[[0, 0], [1, 2]], []]
    """
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(pharaoh_line(each) + "\n" for each in links)


def read_pharaoh(
    path: str | os.PathLike, lengths: Sequence[Sequence[int]] | None = None
) -> list[np.ndarray]:
    """Reads word alignments in Pharaoh's format; the file may be compressed, `.gz` or `.zst`.

    Args:
        path: The file, with a line for each sentence pair, which may be blank.
        lengths: For each pair the numbers of source and of target tokens, to check the links.

    Returns:
        For each line int32 `[links, 2]`: the source's and the target's index of each link.

    Raises:
        ValueError: If a line has anything else, or a link is out of range, or there are not as many
            lines as `lengths`; the message names file and line.

    Example:

    >>> with open("links.txt", "w") as file:
    ...     _ = file.write("0-0 1-2")
    >>> read_pharaoh("links.txt")[0].tolist()
    [[0, 0], [1, 2]]
    """
    rows = list(lines(path))
    if lengths is not None and len(lengths) != len(rows):
        raise InputError(f"{path} must have {len(lengths)} lines, one a pair. It has {len(rows)}.")
    found = []
    for number, row in enumerate(rows, start=1):
        links = []
        for word in row.decode("utf-8", "replace").split():
            match = _LINK.fullmatch(word)
            if not match:
                raise InputError(
                    f"{path}:{number}: links must be as 0-0 is, two indexes. Received: {word!r}"
                )
            link = int(match[1]), int(match[2])
            if lengths is not None:
                _check_range(f"{path}:{number}: {word}", link, lengths[number - 1])
            links.append(link)
        found.append(np.array(links, np.int32).reshape(-1, 2))
    return found


def _check_range(where, link, lengths):
    for side, index, length in zip(("source", "target"), link, lengths, strict=True):
        if index >= length:
            raise InputError(
                f"{where} is out of range: the {side} has {length} tokens, which count from 0."
            )
