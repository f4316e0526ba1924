import json
import shlex
import sys

import pytest
from click.testing import CliRunner

from keras_mt.cli import main
from keras_mt.evaluation import external_scores

FILES = ("in.txt", "out.txt", "ref.txt")

# What comet-score of unbabel-comet 2.2.7 printed of three sentences, with --to_json out.json and
# --print_cache_info; and, with no such options, of a model whose scores overflow float16.
COMET = (
    "out.txt\tSegment 0\tscore: 2.2227\n"
    "out.txt\tSegment 1\tscore: 1.6465\n"
    "out.txt\tSegment 2\tscore: 1.5303\n"
    "out.txt\tscore: 1.7998\n"
    "Predictions saved in: out.json.\n"
    "CacheInfo(hits=0, misses=3, maxsize=1024, currsize=3)"
)
OVERFLOW = (
    "out.txt\tSegment 0\tscore: inf\n"
    "out.txt\tSegment 1\tscore: 45824.0000\n"
    "out.txt\tSegment 2\tscore: 41216.0000\n"
    "out.txt\tscore: inf"
)

# Takes what comet-score takes, and prints what it prints.
STAND_IN = """
import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("-s"); parser.add_argument("-t"); parser.add_argument("-r")
parser.add_argument("--quiet", action="store_true")
args = parser.parse_args()
columns = [open(path, encoding="utf-8").read().splitlines() for path in (args.s, args.t, args.r)]
assert len({len(column) for column in columns}) == 1 and len(columns[0]) == 20
right = sum(a == b for a, b in zip(columns[1], columns[2]))
print("Seed set to 1", file=sys.stderr)
for i in range(20):
    print(f"{args.t}\\tSegment {i}\\tscore: 9.9000")
print(f"{args.t}\\tscore: {right / 20:.4f}")
print("Predictions saved in: out.json.")
"""


def prints(text):
    return [sys.executable, "-c", f"import sys; print({text!r}, *sys.argv[1:])"]


@pytest.mark.parametrize(
    ("printed", "scores"),
    [
        (COMET, {"comet": 1.7998}),
        ("0.5", {"comet": 0.5}),
        ("score: -1.5e-2\nPredictions saved.", {"comet": -0.015}),
        ('{"comet": 0.9, "model": "x", "kiwi": 0.7, "ok": true}', {"comet": 0.9, "kiwi": 0.7}),
        ("score: 1\nscore: 2", {"comet": 2.0}),
        ("score: 0.5\nscore: ...", {"comet": 0.5}),
        (".5", {"comet": 0.5}),
        ('score: .5\n{"comet": null}', {"comet": 0.5}),
    ],
)
def test_the_last_scores_that_are_printed_count(printed, scores):
    # A word that names the files is left empty-handed of -s, -t and -r, which would end the line.
    command = [*prints(printed)[:-1], f"print({printed!r}) # {{source}}"]
    assert external_scores(command, *FILES) == scores


def test_files_stand_where_the_command_has_their_names(tmp_path):
    code = "import json, sys; print(json.dumps({x.split('/')[-1]: i for i, x in " \
           "enumerate(sys.argv[1:])}))"  # fmt: skip
    start = [sys.executable, "-c", code]
    paths = [tmp_path / name for name in FILES]
    found = external_scores([*start, "{hypothesis}", "--ref={reference}", "{source}"], *paths)
    assert found == {"out.txt": 0, "ref.txt": 1, "in.txt": 2}
    found = external_scores(shlex.join(start), *paths)
    assert found == {"-s": 0, "in.txt": 1, "-t": 2, "out.txt": 3, "-r": 4, "ref.txt": 5}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "must name a program"),
        ("'a", "cannot be split into words"),
        ("no-such-program-anywhere", "There is no program 'no-such-program-anywhere'"),
        (prints("hello"), r"printed no score.*\nhello"),
        (
            [sys.executable, "-c", "print('why'); raise SystemExit(3)"],
            r"failed with status 3.\nwhy",
        ),
        # The score of the last sentence that has one is not the system's.
        (prints(OVERFLOW), r"gave a score that is not finite.*score: inf$"),
        (prints("score: 0.5\nnan"), "not finite"),
        (prints('score: 0.5\n{"comet": NaN, "kiwi": 0.7}'), "not finite"),
    ],
)
def test_what_gives_no_score_is_refused(command, message):
    # The files are named by a word of their own: -s, -t and -r would end the last line.
    if isinstance(command, list):
        command = [*command[:2], command[2].replace(", *sys.argv[1:]", "") + " # {source}"]
    with pytest.raises((ValueError, OSError), match=f"(?s){message}"):
        external_scores(command, *FILES)


def test_evaluate_takes_the_scores_of_a_command_into_table_and_json(corpus, tmp_path):
    lines = (corpus / "en.test.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8-sig")
    (tmp_path / "b.txt").write_text("\n".join([*lines[:15], *"vwxyz"]), encoding="utf-8")
    (tmp_path / "metric.py").write_text(STAND_IN)
    command = shlex.join([sys.executable, str(tmp_path / "metric.py"), "--quiet"])
    data = "--data", str(corpus), "--source", "pt", "--target", "en", "--resamples", "0"
    files = [x for name in "ab" for x in ("--hypotheses", str(tmp_path / f"{name}.txt"))]
    result = CliRunner().invoke(main, ["evaluate", *files, *data, "--comet", command])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert [system["comet"] for system in found["systems"]] == [1.0, 0.75]
    assert found["systems"][0]["bleu"] == 100  # A byte-order mark is no part of the first line.
    assert found["comet_command"] == command
    head, *rows = result.stderr.splitlines()[:3]
    assert head.split()[-1] == "comet" and [row.split()[-1] for row in rows] == ["1.0", "0.75"]
    result = CliRunner().invoke(main, ["evaluate", *files, *data, "--comet", "false"])
    assert result.exit_code == 1 and "failed with status 1.\nThe other" in result.stderr
    rest = json.loads(result.stdout.splitlines()[-1])  # What was already known is not lost.
    assert [system["bleu"] for system in rest["systems"]] == [s["bleu"] for s in found["systems"]]
    own = f"""{shlex.quote(sys.executable)} -c 'print("{{\\"bleu\\": 1}}")'"""
    result = CliRunner().invoke(main, ["evaluate", *files, *data, "--comet", own])
    assert result.exit_code == 1 and "calls a score bleu, as evaluate does" in result.stderr
