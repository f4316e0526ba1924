"""Files that appear whole or not at all."""

import contextlib
import os
import shutil
from pathlib import Path


@contextlib.contextmanager
def written_whole(path):
    """Gives a temporary name to write a file or folder to, and moves it to `path` at the end.

    Example:

    >>> with written_whole("notes.txt") as temporary:
    ...     temporary.write_text("all or nothing")  # doctest: +SKIP
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}")  # The same ending: some writers go by it.
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)
