"""What goes wrong under `keras-mt translate-files`, and what becomes of the translations.

usage: python benchmarks/faults.py SAVED_MODEL --text FILE [--lines N] [--kills N] [--seed N]
           [--only NAME,...]

Each fault is made in processes of the command, and prints a row of a table: what was done, what was
seen, and the seconds it took. The text's lines, repeated, are N lines; what `keras-mt translate`
makes of them is what each file must be. `disk` mounts a small file system in memory, and is left
out where it may not.
"""

import argparse
import filecmp
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "keras_mt"]


class Place:
    """A folder with the text, and what `translate` makes of it."""

    def __init__(self, folder, model, text, lines):
        self.folder, self.model = folder, model
        self.text, self.expected = folder / "text.txt", folder / "expected.txt"
        found = Path(text).read_bytes().split(b"\n")
        self.text.write_bytes(b"\n".join(itertools.islice(itertools.cycle(found), lines)))
        with open(self.expected, "wb") as file:
            subprocess.run([*COMMAND, "translate", model, self.text], stdout=file, check=True)

    def start(self, output, *files, part_lines=100):
        """A process of the command, whose messages are kept."""
        command = [*COMMAND, "translate-files", self.model, output, *files]
        command += ["--part-lines", part_lines]
        return subprocess.Popen(
            [*map(str, command)], stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )

    def run(self, output, *files, **options):
        """The exit status, the messages and the seconds of the command."""
        start = time.perf_counter()
        process = self.start(output, *files, **options)
        messages = process.communicate()[1]
        return process.returncode, messages, time.perf_counter() - start

    def is_right(self, output):
        """Whether the text's translation is whole, and nothing of the work is left over."""
        path = output / self.text.name
        there = path.exists() and filecmp.cmp(path, self.expected, shallow=False)
        return there and [*output.iterdir()] == [path]


def kills(place, number, draw):
    output, done = place.folder / "kills", 0
    process = place.start(output, place.text)
    while done < number and not (output / place.text.name).exists():
        time.sleep(draw.uniform(0, 10))
        if process.poll() is None:
            process.kill()
            done += 1
        process.communicate()
        process = place.start(output, place.text)
    process.communicate()
    return f"{done} SIGKILLs at random moments", judged(place, output)


def second(place, number, draw):
    output = place.folder / "second"
    first = place.start(output, place.text)
    while not list(output.glob(".parts/*.jsonl")):
        time.sleep(0.1)
    status, messages, _ = place.run(output, place.text)
    first.communicate()
    said = messages.strip().split("Error: ")[-1].replace(str(place.folder), "")
    return "a second process", f"status {status}, and: {said!r}; {judged(place, output)}"


def judged(place, output):
    same = place.is_right(output)
    return "the file is that of an unbroken run" if same else "THE FILE IS WRONG"


def disk(place, number, draw):
    output = place.folder / "disk"
    output.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", output]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        return "a full disk", "left out: no file system may be mounted"
    try:
        status, messages, _ = place.run(output, place.text)
        whole = (output / place.text.name).exists()
        subprocess.run(["mount", "-o", "remount,size=50m", output], check=True)
        place.run(output, place.text)
        said = messages.strip().split("Error: ")[-1].replace(str(place.folder), "")
        seen = f"status {status}, {'a file' if whole else 'no file'}, and: {said!r}; with more "
        return "a full disk (tmpfs)", f"{seen} space {judged(place, output)}"
    finally:
        subprocess.run(["umount", output], check=True)


def changed(place, number, draw):
    output, text = place.folder / "changed", place.folder / "changed.txt"
    text.write_bytes(place.text.read_bytes())
    process = place.start(output, text)
    while not list(output.glob(".parts/*.jsonl")):
        time.sleep(0.1)
    with open(text, "r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"something!")
    messages = process.communicate()[1].split("refused: ")[-1].split("\n")[0]
    there = (output / text.name).exists()
    return (
        "an input that changes under the run",
        f"status {process.returncode}, {'a file' if there else 'no file'}, and: "
        f"{messages.replace(str(place.folder) + '/', '')!r}",
    )


def long_line(place, number, draw):
    output, text = place.folder / "long", place.folder / "long.txt"
    text.write_bytes(b"\n")
    _, _, before = place.run(output, text)
    text = place.folder / "longer.txt"
    text.write_bytes(b"\n" + b"word " * 2_000_000 + b"\n")
    status, _, seconds = place.run(output, text)
    (entry,) = map(json.loads, (output / "errors.jsonl").open(encoding="utf-8"))
    return (
        "a line of 10 MB",
        f"{seconds:.1f} s, {before:.1f} for a file of one empty line; status {status}, an empty "
        f"line, and: {entry['where']}, {entry['error']!r}",
    )


def empty_lines(place, number, draw):
    output, text = place.folder / "empty", place.folder / "empty.txt"
    text.write_bytes(b"\n" * 1_000_000)
    status, _, seconds = place.run(output, text, part_lines=1000)
    same = filecmp.cmp(output / text.name, text, shallow=False)
    return (
        "a million empty lines, in parts of 1,000",
        f"status {status}, {'as many' if same else 'NOT AS MANY'}, in {seconds:.0f} s",
    )


def line_ends(place, number, draw):
    output, text = place.folder / "ends", place.folder / "ends.txt"
    text.write_bytes(place.text.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n"))
    place.run(output, text)
    same = filecmp.cmp(output / text.name, place.expected, shallow=False)
    return (
        "CRLF, and no newline at the end",
        f"{'as' if same else 'NOT AS'} of the file with newlines",
    )


def memory(place, number, draw):
    peaks = []
    for lines in (1_000, 300_000):
        text = place.folder / f"memory{lines}.txt"
        text.write_bytes(b"a\n" + b"x" * 200 + b"\n" + b"\n" * lines)
        process = place.start(place.folder / "memory", text)
        process.stderr.read()
        _, _, usage = os.wait4(process.pid, 0)
        peaks.append(usage.ru_maxrss / 1024)
    return "a file of 300 times as many lines", f"memory {peaks[0]:.0f} and {peaks[1]:.0f} MB"


FAULTS = {
    each.__name__: each
    for each in (kills, second, disk, changed, long_line, empty_lines, line_ends, memory)
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="SAVED_MODEL")
    parser.add_argument("--text", required=True, metavar="FILE")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(FAULTS), metavar="NAME,...")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), arguments.model, arguments.text, arguments.lines)
        print("| fault | seen | seconds |\n| --- | --- | ---: |", flush=True)
        for name in arguments.only.split(","):
            start = time.perf_counter()
            what, seen = FAULTS[name](place, arguments.kills, random.Random(arguments.seed))
            print(f"| {what} | {seen} | {time.perf_counter() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
