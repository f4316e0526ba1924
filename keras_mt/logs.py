"""TensorFlow's log lines, of which those that tell users nothing are kept off the screen."""

import contextlib
import faulthandler
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

# The beginnings of lines that are information alone; and what is said in vain, as an error too.
_NEWS = rb"I\d{4} |[\d-]+ [\d:.]+: I |INFO: |WARNING: All log messages before absl|To enable the "
_NEWS += rb"|.*(Unable to register cu|computation placer already registered)"
_NO_DRIVER = rb"|.*failed call to cuInit"


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Holds back standard error, native code's too, and then drops what tells users nothing.

    TensorFlow logs warnings and errors from then on. It logs all, and nothing is held back, where
    the environment variable TF_CPP_MIN_LOG_LEVEL is 0 or KERAS_MT_DEBUG is set.
    """
    debug = os.environ.get("KERAS_MT_DEBUG")
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if debug else "1")
    stderr = None
    if not debug and level != "0" and hasattr(os, "memfd_create"):  # As on Linux.
        with contextlib.suppress(OSError):  # Of a process without standard error, for one.
            memory = os.memfd_create("stderr")
            stderr = os.dup(2)
    if stderr is None:
        yield
        return
    watches = not faulthandler.is_enabled()  # A crash says where it was.
    with open(memory, "w+b") as held:
        os.dup2(held.fileno(), 2)
        if watches:
            faulthandler.enable(stderr)
        try:
            yield
        finally:
            if watches:
                faulthandler.disable()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            news = re.compile(_NEWS if has_gpu() else _NEWS + _NO_DRIVER)
            with contextlib.suppress(OSError):  # Nobody reads it.
                for line in held:
                    if not news.match(line):
                        os.write(2, line)


def has_gpu() -> bool:
    """True if the machine has a GPU of NVIDIA's, whether or not TensorFlow can use it."""
    with contextlib.suppress(OSError):  # Where /sys may not be read.
        vendors = map(Path.read_text, Path("/sys/bus/pci/devices").glob("*/vendor"))
        return bool(glob.glob("/dev/nvidia[0-9]*")) or "0x10de\n" in vendors
    return False
