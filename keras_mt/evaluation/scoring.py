"""Scores of translations, all of them by sacreBLEU."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import sacrebleu
from sacrebleu.significance import PairedTest

from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder

# The metrics by their names in results, and as people write them.
METRICS = {"bleu": "BLEU", "chrf": "chrF", "chrfpp": "chrF++"}


class Scorer:
    """sacreBLEU's BLEU, chrF and chrF++ of translations, given lists of references.

    Of each metric it gives `bleu`, `bleu_signature` and, if there are `resamples`, `bleu_mean` and
    `bleu_ci`: the 95% interval is `bleu_mean` +/- `bleu_ci` (None where the mean is 0).
    """

    def __init__(
        self, references: Sequence[Sequence[str]], tokenize: str = "13a", resamples: int = 1000
    ):
        try:
            bleu = sacrebleu.BLEU(tokenize=tokenize, references=references)
        except (ImportError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"sacreBLEU's tokenizer {tokenize}: {reason}") from error
        self._resamples = resamples
        self._metrics = {
            "bleu": bleu,
            "chrf": sacrebleu.CHRF(references=references),
            "chrfpp": sacrebleu.CHRF(word_order=2, references=references),
        }
        # After a bootstrap they would name the resamples too.
        self._signatures = self.signatures()

    def __call__(self, hypotheses: Sequence[str]) -> dict[str, Any]:
        scores = {}
        for name, metric in self._metrics.items():
            score = metric.corpus_score(hypotheses, None, n_bootstrap=max(1, self._resamples))
            scores[name] = round(score.score, 2)
            scores[f"{name}_signature"] = self._signatures[name]
            if self._resamples > 1:
                printed = json.loads(score.format(signature=self._signatures[name], is_json=True))
                scores[f"{name}_mean"] = printed.get("confidence_mean")
                scores[f"{name}_ci"] = printed.get("confidence_var")
                scores |= {"resamples": metric.n_bootstrap, "seed": metric.seed}
        return scores

    def signatures(self) -> dict[str, str]:
        """The metrics' signatures by their names, with the resamples of the last call."""
        return {name: str(metric.get_signature()) for name, metric in self._metrics.items()}

    def paired(
        self, systems: Mapping[str, Sequence[str]], test: str
    ) -> tuple[dict[str, dict[str, float | None]], dict[str, str]]:
        """The p-values of each system, by metric, against the first; and the test's signatures.

        The test is paired "bootstrap" resampling (Koehn 2004) or approximate "randomization"
        (Riezler and Maxwell 2005).
        """
        kind, resamples = "ar", 0  # sacreBLEU's own number.
        if test == "bootstrap":
            kind, resamples = "bs", self._resamples if self._resamples > 1 else 0
        signatures, results = PairedTest(
            list(systems.items()), self._metrics, None, kind, n_samples=resamples
        )()
        # Both are by sacreBLEU's names of the metrics, in the order of ours.
        columns = dict(zip(METRICS, (results[name] for name in signatures), strict=True))
        p_values = {
            system: {name: column[i].p_value for name, column in columns.items()}
            for i, system in enumerate(systems)
        }
        return p_values, dict(zip(METRICS, map(str, signatures.values()), strict=True))


def write_files(
    folder: str | os.PathLike,
    sources: Sequence[str],
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> None:
    """Writes `source.txt`, `hypothesis.txt`, `hypothesis.2.txt` ... to a new folder."""
    check_new(folder)
    columns = {"source": [sources], "hypothesis": hypotheses, "reference": references}
    with new_folder(folder) as temporary:
        for name, files in columns.items():
            for number, lines in enumerate(files, start=1):
                content = "".join(f"{line}\n" for line in lines).encode("utf-8")
                file = f"{name}.txt" if number == 1 else f"{name}.{number}.txt"
                (temporary / file).write_bytes(content)


def table(systems: Sequence[Mapping[str, Any]], signatures: Mapping[str, str]) -> str:
    """Results as a table for people, with the metrics' signatures below it.

    A star marks a metric that differs from the first system's at p < 0.05. Floats that belong to no
    metric are columns too.
    """
    more = dict.fromkeys(
        name
        for system in systems
        for name, value in system.items()
        if isinstance(value, float) and name.partition("_")[0] not in METRICS
    )
    rows = [["", *METRICS.values(), *(name.replace("_", " ") for name in more)]]
    for system in systems:
        cells = [_cell(name, system, systems[0]) for name in METRICS]
        rows.append([system["system"], *cells, *(str(system.get(name, "")) for name in more)])
    first, *others = ([*column] for column in zip(*rows, strict=True))
    columns = [[cell.ljust(max(map(len, first))) for cell in first]]
    columns += [[cell.rjust(max(map(len, column))) for cell in column] for column in others]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    below = [f"{METRICS[name]:6}  {text}" for name, text in signatures.items()]
    return "\n".join([*lines, "", *below])


def _cell(name, system, first):
    """A metric's score, with its interval and its p-value if there are any."""
    cell = f"{system[name]:.2f}"
    interval, p_value = system.get(f"{name}_ci"), system.get(f"{name}_p")
    if interval is not None:
        cell += f" ± {interval:.2f}"
    if p_value is not None:  # It is low for equal systems too.
        differs = p_value < 0.05 and system[name] != first[name]
        cell += f" (p = {p_value:.4f}){'*' if differs else ''}"
    return cell
