import json
from types import SimpleNamespace

import pytest
from command import keras_mt

from keras_mt.evaluation.scoring import Scorer
from keras_mt.options import TranslationOptions

WIDE = ("--width", "2", "--format", "json")


def last_line(result):
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture
def sacrebleu(python):
    """sacreBLEU's own command on the files of a folder."""

    def run(folder, hypotheses, *options, references=("reference.txt",)):
        files = [*references, "--input", *hypotheses]
        result = python("-m", "sacrebleu", *files, *options, *WIDE, "--quiet", cwd=folder)
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
        return found if isinstance(found, list) else [found]

    return run


class Quoting:
    """A model whose translations are known."""

    options = TranslationOptions()

    def __init__(self, translations):
        self.translations = translations

    def hypotheses(self, texts):
        return [[SimpleNamespace(text=text)] for text in self.translations[: len(texts)]]


@pytest.fixture(scope="module")
def evaluated(corpus, tmp_path_factory):
    """Two models and another's translations, with a second reference: the JSON and the folder."""
    folder = tmp_path_factory.mktemp("evaluated")
    lines = (corpus / "en.test.txt").read_text(encoding="utf-8").splitlines()
    first = [line.replace("is", "was") if i % 5 == 0 else line for i, line in enumerate(lines)]
    models = {"first": Quoting(first), "second": Quoting([lines[0], *first[1:]])}
    others = [line.replace("the", "a").replace("is", "was") for line in lines]
    others[3] = ""
    (folder / "theirs.txt").write_text("\n".join(others), encoding="utf-8")
    second = [line.lower() for line in lines]
    (folder / "second.txt").write_text("\n".join(second) + "\n", encoding="utf-8")
    for name in models:
        (folder / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("keras_mt.cli.evaluate.load_translator", lambda path, *_: models[path])
        result = keras_mt(
            "evaluate", *models, "--data", corpus, "--source", "pt", "--target", "en",
            "--hypotheses", folder / "theirs.txt", "--references", folder / "second.txt",
            "--paired", "bootstrap", "--output", folder / "new" / "files",
        )  # fmt: skip
    return last_line(result), folder / "new" / "files", result.stderr


def test_scores_agree_with_sacrebleus_command_to_the_last_digit(evaluated, sacrebleu):
    found, folder, shown = evaluated
    references = "reference.txt", "reference.2.txt"
    names = "hypothesis.txt", "hypothesis.3.txt"
    for name, system in zip(names, found["systems"][::2], strict=True):
        assert system["sentences"] == 20
        for options, metrics in (
            (("--metrics", "bleu", "chrf"), ("bleu", "chrf")),
            (("--metrics", "chrf", "--chrf-word-order", "2"), ("chrfpp",)),
        ):
            expected = sacrebleu(folder, [name], *options, "--confidence", references=references)
            for metric, one in zip(metrics, expected, strict=True):
                assert system[metric] == one["score"]
                assert system[f"{metric}_mean"] == one["confidence_mean"]
                assert system[f"{metric}_ci"] == one["confidence_var"]
                resampled = f"bs:{system['resamples']}|seed:{system['seed']}|"
                assert one["signature"] == system[f"{metric}_signature"].replace(
                    "nrefs:2|", f"nrefs:2|{resampled}"
                )
                assert f"{one['score']:.2f} ± {one['confidence_var']:.2f}" in shown
    assert found["systems"][0]["bleu"] > found["systems"][2]["bleu"] > 10


@pytest.mark.long
def test_the_paired_tests_agree_with_sacrebleus_command(evaluated, sacrebleu, corpus):
    found, folder, shown = evaluated
    references = "reference.txt", "reference.2.txt"
    names = [system["system"] for system in found["systems"]]
    files = "hypothesis.txt", "hypothesis.2.txt", "hypothesis.3.txt"
    expected = sacrebleu(folder, files, "--paired-bs", references=references)
    assert found["paired"]["against"] == names[0]
    for system, one in zip(found["systems"], expected, strict=True):
        assert system["bleu_p"] == one["BLEU"]["p_value"]
    assert found["systems"][2]["bleu_p"] < 0.05
    assert f"(p = {found['systems'][2]['bleu_p']:.4f})*" in shown
    first, second = (system["bleu"] for system in found["systems"][:2])
    if first == second:  # sacreBLEU's p-value is low for equal systems too.
        assert "*" not in shown.splitlines()[2]
    # Randomization, of files alone.
    result = keras_mt(
        "evaluate", "--hypotheses", folder / "hypothesis.txt", "--hypotheses",
        folder / "hypothesis.3.txt", "--data", corpus, "--source", "pt", "--target", "en",
        "--paired", "randomization", "--resamples", "0",
    )  # fmt: skip
    files, options = (files[0], files[2]), ("--metrics", "bleu", "chrf", "--paired-ar")
    one = sacrebleu(folder, files, *options)[1]
    scores = last_line(result)
    assert scores["systems"][1]["bleu_p"] == one["BLEU"]["p_value"]
    assert scores["systems"][1]["chrf_p"] == one["chrF2"]["p_value"]
    assert "|ar:10000|seed:12345|" in scores["paired"]["signatures"]["bleu"]
    assert "bleu_ci" not in scores["systems"][0]
    # As many resamples as were asked for, in the intervals and in the test.
    result = keras_mt(
        "evaluate", "--hypotheses", folder / "hypothesis.txt", "--hypotheses",
        folder / "hypothesis.3.txt", "--data", corpus, "--source", "pt", "--target", "en",
        "--paired", "bootstrap", "--resamples", "50",
    )  # fmt: skip
    scores = last_line(result)
    assert {system["resamples"] for system in scores["systems"]} == {50}
    assert "|bs:50|seed:12345|" in scores["paired"]["signatures"]["bleu"]
    assert {path.name for path in folder.iterdir()} == {
        "source.txt", "reference.txt", "reference.2.txt",
        "hypothesis.txt", "hypothesis.2.txt", "hypothesis.3.txt",
    }  # fmt: skip


def test_an_interval_is_that_of_resampled_sentences():
    """By hand: of a share of sentences that are right."""
    right, wrong = "a b c d e f", "u v w x y z"
    scores = Scorer([[right] * 400])([right] * 100 + [wrong] * 300)
    # BLEU of a part that is all right and a part that is all wrong is the share of the first.
    assert scores["bleu"] == pytest.approx(25, abs=0.01)
    assert scores["bleu_ci"] == pytest.approx(100 * 1.96 * (0.25 * 0.75 / 400) ** 0.5, rel=0.1)
    assert Scorer([[right]])([""])["bleu_ci"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give a run folder"),
        (("RUN", "RUN"), "is given twice"),
        (("RUN", "--paired", "bootstrap"), "two systems"),
        (("RUN", "--hypotheses", "SHORT"), "short.txt has 2 lines, and the split 20 sentences"),
        (("RUN", "--references", "SHORT"), "short.txt has 2 lines"),
        (("--hypotheses", "BYTES"), "bytes.txt:3 is not UTF-8 at byte 2"),
        (("RUN", "--output", "CORPUS"), "exists and is not overwritten"),
        (("RUN", "BYTES", "--ensemble", "RUN"), "--ensemble goes with exactly one run folder"),
    ],
)
def test_what_cannot_be_scored_is_refused_before_the_work(
    arguments, message, run_dir, corpus, tmp_path
):
    names = {"RUN": run_dir, "CORPUS": corpus}
    names |= {"SHORT": tmp_path / "short.txt", "BYTES": tmp_path / "bytes.txt"}
    names["SHORT"].write_bytes(b"a\nb\n")
    names["BYTES"].write_bytes(b"a\n" * 2 + b"b\xff\n" + b"c\n" * 17)
    arguments = [names.get(argument, argument) for argument in arguments]
    data = "--data", corpus, "--source", "pt", "--target", "en"
    result = keras_mt("evaluate", *arguments, *data, check=False)
    assert result.exit_code in (1, 2) and message in result.stderr, result.stderr
