"""Makes the tables of docs/performance.md from the lines that the benchmarks wrote.

usage: python benchmarks/tables.py LINES.jsonl [--into docs/performance.md]

The last line of each workload and system counts. With --into, the tables replace what is between
`<!-- tables -->` and `<!-- end of tables -->` in the file; without it, they are printed.
"""

import argparse
import json
import re
from pathlib import Path

TITLES = {"decode": "Decoding, sentences per second", "train": "Training, target tokens per second"}
MARKS = "<!-- tables -->", "<!-- end of tables -->"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", type=Path)
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    lines = map(json.loads, arguments.lines.read_text(encoding="utf-8").splitlines())
    found = tables(list(lines))
    if not arguments.into:
        print(found)
        return
    text = arguments.into.read_text(encoding="utf-8")
    begin, end = map(re.escape, MARKS)
    new = f"{MARKS[0]}\n\n{found}\n{MARKS[1]}"
    text, count = re.subn(f"{begin}.*?{end}", lambda _: new, text, flags=re.DOTALL)
    if not count:
        raise SystemExit(f"{arguments.into} has no {MARKS[0]} ... {MARKS[1]} to fill.")
    arguments.into.write_text(text, encoding="utf-8")


def tables(lines):
    """A Markdown table for each benchmark and set of instructions, and where it was measured."""
    groups = {}
    for line in lines:
        group = groups.setdefault((line["benchmark"], line["instructions"]), {})
        group[line["workload"], line["system"]] = line
    parts = []
    for (benchmark, instructions), group in groups.items():
        workloads, systems = (list(dict.fromkeys(names)) for names in zip(*group, strict=True))
        systems.sort(key=lambda system: system == "best/best")
        title = TITLES[benchmark] + ("" if instructions == "all" else f", {instructions}")
        rows = [[title, *workloads], ["---"] * (1 + len(workloads))]
        for system in systems:
            cells = [cell(group.get((workload, system))) for workload in workloads]
            rows.append([system, *cells])
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        last = list(group.values())[-1]
        versions = ", ".join(f"{name} {number}" for name, number in last["versions"].items())
        parts.append(f"{table}\n{last['date']}; {last['machine']}; {versions}.\n")
    return "\n".join(parts)


def cell(line):
    if line is None:
        return ""
    if line["system"] == "best/best":
        return f"**{line['value']:.2f}** ({line['ours']} over {line['peer']})"
    digits = 0 if line["value"] >= 100 else 2
    return f"{line['value']:,.{digits}f} ({line['threads']}; {line['peak_memory_mb']:,} MB)"


if __name__ == "__main__":
    main()
