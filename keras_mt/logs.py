"""TensorFlow's log lines, of which those that tell users nothing are kept off the screen."""

import contextlib
import glob
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# The beginnings of lines that are information alone; and what is said in vain, as an error too.
_NEWS = "I[0-9]{4} |[0-9-]+ [0-9:.]+: I |INFO: |WARNING: All log messages before|To enable the "
_NEWS += "|.*(Unable to register cu|computation placer already registered)"
_NO_DRIVER = "|.*failed call to cuInit"


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Drops lines of standard error, native code's too, that tell users nothing.

    They go through a process, so that the last words of native code that aborts are seen.
    TensorFlow logs warnings and errors from then on. It logs all, and nothing is dropped, where the
    environment variable TF_CPP_MIN_LOG_LEVEL is 0 or KERAS_MT_DEBUG is set.
    """
    debug = os.environ.get("KERAS_MT_DEBUG")
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if debug else "1")
    news, sieve = _NEWS if has_gpu() else _NEWS + _NO_DRIVER, None
    if not debug and level != "0":
        with contextlib.suppress(OSError):  # Without standard error or grep.
            command = ["grep", "--text", "--invert-match", "-E", f"^({news})"]
            sieve = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2)
    if sieve is None:
        yield
        return
    stderr = os.dup(2)
    os.dup2(sieve.stdin.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        sieve.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # Of a process that still writes.
            sieve.wait(timeout=1)


def has_gpu() -> bool:
    """True if the machine has a GPU of NVIDIA's, whether or not TensorFlow can use it."""
    with contextlib.suppress(OSError):  # Where /sys may not be read.
        vendors = map(Path.read_text, Path("/sys/bus/pci/devices").glob("*/vendor"))
        return bool(glob.glob("/dev/nvidia[0-9]*")) or "0x10de\n" in vendors
    return False
