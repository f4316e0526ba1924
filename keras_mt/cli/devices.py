"""A GPU that TensorFlow cannot use: the command hides what TensorFlow logs as it starts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# What TensorFlow logs where a driver or a library of the GPU cannot be loaded.
_FAULTS = re.compile(
    r"Could not find cuda drivers|Cannot dlopen some GPU libraries|Could not load dynamic library|"
    r"failed call to cuInit|CUDA_ERROR_|does not match DSO version"
)
_LOG_PREFIX = re.compile(r"^\S+ \S+ +\d+ \S+:\d+\] |^\S+ \S+: \w \S+:\d+\] ")


def unusable_gpu():
    """Says that there is an NVIDIA GPU which TensorFlow cannot use, and why; None otherwise."""
    import tensorflow as tf

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or not _has_nvidia_gpu() or tf.config.list_physical_devices("GPU"):
        return None
    # In a process of its own: how much is logged is settled when TensorFlow is imported.
    log = subprocess.run(
        [sys.executable, "-c", "import tensorflow as tf; tf.config.list_physical_devices()"],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"},
        capture_output=True, encoding="utf-8", errors="replace", check=False,
    ).stderr  # fmt: skip
    lines = [_LOG_PREFIX.sub("", line) for line in log.splitlines() if _FAULTS.search(line)]
    why = "".join(f"\n  {line}" for line in dict.fromkeys(lines))
    return f"There is an NVIDIA GPU that TensorFlow cannot use.{why and ' It says:'}{why}"


def _has_nvidia_gpu():
    if any(Path("/proc/driver/nvidia/gpus").glob("*")):
        return True
    command = shutil.which("nvidia-smi")
    if command is None:
        return False
    result = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
    return result.returncode == 0 and result.stdout.startswith("GPU")
