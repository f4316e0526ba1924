"""Word alignments in files, in Pharaoh's format."""

import os
from collections.abc import Iterable

import numpy as np

from keras_mt.files import atomic_write


def pharaoh_line(links: np.ndarray) -> str:
    """The links of one sentence pair, `[links, 2]`, as a line of Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in links)


def write_pharaoh(path: str | os.PathLike, links: Iterable[np.ndarray]) -> None:
    """Writes word alignments in Pharaoh's format: a line such as `0-0 1-2` for each sentence pair.

    For each pair they are integers `[links, 2]`: a source's and a target's index, from 0.

    >>> write_pharaoh("links.txt", [[[0, 0], [1, 2]], []])
    >>> open("links.txt").read()
    '0-0 1-2\\n\\n'
    """
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(pharaoh_line(each) + "\n" for each in links)
