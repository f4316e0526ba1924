"""What is kept off the screen while TensorFlow is imported, and what is not."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT

SCRIPT = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("logs", sys.argv[1])
logs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(logs)
with logs.hushed():
    os.write(2, b"I0000 00:00:01 news\\n2026-01-01 00:00:01.5: I core.cc] news\\nNo AVX: \\xff\\n")
    if sys.argv[2:]:
        os.abort()
os.write(2, b"I0000 00:00:02 all\\n")
"""


@pytest.mark.parametrize("end", ["", "abort"])
def test_news_is_dropped_and_the_last_words_of_native_code_are_seen(end):
    command = [sys.executable, "-c", SCRIPT, ROOT / "keras_mt" / "logs.py", *filter(None, [end])]
    names = "TF_CPP_MIN_LOG_LEVEL", "KERAS_MT_DEBUG"
    environ = {name: value for name, value in os.environ.items() if name not in names}
    result = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert result.stderr == b"No AVX: \xff\n" + (b"" if end else b"I0000 00:00:02 all\n")
    assert (result.returncode < 0) == bool(end)
