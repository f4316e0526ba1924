"""Files that appear whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path


@contextlib.contextmanager
def written_whole(path):
    """Gives a temporary name to write a file or folder to, and moves it to `path` at the end.

    Example:

    >>> with written_whole("notes.txt") as temporary:
    ...     temporary.write_text("all or nothing")  # doctest: +SKIP
    """
    path = Path(path)
    with tempfile.TemporaryDirectory(
        prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True
    ) as folder:
        temporary = Path(folder) / path.name  # The same name: some writers go by its ending.
        yield temporary
        os.replace(temporary, path)
