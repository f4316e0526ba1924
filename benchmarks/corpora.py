"""What the engines that divide a corpus cost: seconds, processor seconds and memory.

usage: python benchmarks/corpora.py SAVED_MODEL --text FILE [--lines N] [--only NAME,...]
           [--beam-python PYTHON] [--ray-python PYTHON]

The text's lines, repeated, are N lines, which each of these translates: `one` process of `keras-mt
translate-files`, and `beam` and `ray`, the examples in examples/batch with two workers. Beam and
Ray may be in environments of their own. The last line is a JSON object. Of each: the seconds by the
clock, the processor seconds of all its processes, both also as multiples of those of `one`; the
largest worker's peak of memory, and the largest sum of that of all processes; and the lines that
differ from those of `one`.
"""

import argparse
import ctypes
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples" / "batch"
PART_LINES = 2000  # As in the examples.
PR_SET_CHILD_SUBREAPER = 36


def descendants():
    """The ids of all processes that this one has started, at any remove."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rsplit(")")[-1].split()[1]
            )
        except OSError:  # It has ended.
            continue
    found = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def memory(process):
    """The memory of a process now and its peak, in MB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in lines)
    return [int(fields.get(name, "0").split()[0]) // 1024 for name in ("VmRSS", "VmHWM")]


class Watch(threading.Thread):
    """Keeps the peaks of memory of what has been started."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended, self.worker, self.all = threading.Event(), 0, 0

    def run(self):
        while not self.ended.wait(0.5):
            found = [memory(process) for process in descendants()]
            self.worker = max([self.worker, *(peak for _, peak in found)])
            self.all = max(self.all, sum(now for now, _ in found))


def measured(command):
    """Runs a command to its end, and that of all that it has started."""
    start, before = time.perf_counter(), os.times()
    watch = Watch()
    watch.start()
    status = subprocess.run(
        [*map(str, command)], stdout=sys.stderr, cwd=EXAMPLES.parents[1], check=False
    ).returncode
    seconds = time.perf_counter() - start
    watch.ended.set()
    while True:  # What it has left behind has become this process's child, and ends soon.
        try:
            os.wait()
        except ChildProcessError:
            break
    after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])
    return {
        "status": status,
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "worker_mb": watch.worker,
        "all_mb": watch.all,
    }


def command_of(name, given, output, text):
    """The command of an engine."""
    files = [sys.executable, "-m", "keras_mt", "translate-files", given.model, output, text]
    files += ["--part-lines", PART_LINES]
    beam = [given.beam_python, EXAMPLES / "beam_files.py", given.model, output, text]
    beam += ["--runner=FnApiRunner", "--direct_running_mode=multi_processing"]
    beam += ["--direct_num_workers=2"]
    ray = [given.ray_python, EXAMPLES / "ray_files.py", given.model, output, text]
    return {"one": files, "beam": beam, "ray": ray}[name]


def differing(path, other):
    with open(path, "rb") as a, open(other, "rb") as b:
        return sum(x != y for x, y in itertools.zip_longest(a, b))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="SAVED_MODEL", type=lambda path: Path(path).resolve())
    parser.add_argument("--text", required=True, metavar="FILE", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--only", default="one,beam,ray", metavar="NAME,...")
    parser.add_argument("--beam-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--ray-python", default=sys.executable, metavar="PYTHON")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # What a command leaves is ours.
    report = {"lines": given.lines}
    with tempfile.TemporaryDirectory() as folder:
        text, first = Path(folder, "text.txt"), None
        found = given.text.read_bytes().splitlines(keepends=True)
        text.write_bytes(b"".join(itertools.islice(itertools.cycle(found), given.lines)))
        for name in given.only.split(","):
            output = Path(folder, name)
            row = report[name] = measured(command_of(name, given, output, text))
            first = first or row
            for field in ("seconds", "processor_seconds"):
                row[f"{field}_ratio"] = round(row[field] / first[field], 2)
            if row["status"] == 0:
                one = Path(folder, given.only.split(",")[0], text.name)
                row["differing_lines"] = differing(one, output / text.name)
            print(name, row, file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
