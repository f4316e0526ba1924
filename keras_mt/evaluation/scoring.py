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
# The paired tests, as sacreBLEU abbreviates them.
PAIRED_TESTS = {"bootstrap": "bs", "randomization": "ar"}
# sacreBLEU's own number of resamples.
RESAMPLES = 1000


class Scorer:
    """sacreBLEU's BLEU, chrF and chrF++ of translations of the same sources.

    Args:
        references: Sequence of references, each a sequence of str with one for each source.
        tokenize: sacreBLEU's tokenizer for BLEU.
        resamples: Number of bootstrap resamples for the confidence intervals; 0 or 1 for no
            intervals. Memory grows with their number times that of the sentences: 0.1 GB for 1,000
            and 1,000.

    Call arguments:
        hypotheses: Sequence of str, the translations.

    Returns:
        A dict with, for each metric `bleu`, `chrf` and `chrfpp`: its score by that name;
        `bleu_signature` and so on; and with resamples `bleu_mean` and `bleu_ci` and so on, where
        `bleu_mean` +/- `bleu_ci` is the 95% confidence interval (None where the mean is 0). With
        resamples it also has `resamples` and `seed`, which sacreBLEU adds to the signature as
        `bs:1000|seed:12345`. Scores have two decimals.

    Raises:
        ValueError: If there are no references, they differ in number from each other or from the
            translations, `resamples` is below 0, or the tokenizer needs what is not installed.

    Reference:
        Post 2018, A Call for Clarity in Reporting BLEU Scores (https://aclanthology.org/W18-6319);
        the intervals: Koehn 2004, Statistical Significance Tests for Machine Translation Evaluation
        (https://aclanthology.org/W04-3250).

    Example:

    >>> scorer = Scorer([["The book is on the table.", "A man sleeps."]], resamples=0)
    >>> scores = scorer(["The book is on the table.", "A man is asleep."])
    >>> scores["bleu"], scores["chrf"], scores["chrfpp"]
    (70.21, 82.1, 82.25)
    """

    def __init__(
        self, references: Sequence[Sequence[str]], tokenize: str = "13a", resamples: int = RESAMPLES
    ):
        lengths = [len(part) for part in references]
        if not lengths or not lengths[0] or len(set(lengths)) > 1:
            raise InputError(
                "references must be lists of the same length, at least one str each. "
                f"Received: lists of {', '.join(map(str, lengths)) or 'none'}"
            )
        if resamples < 0:
            raise InputError(f"resamples must be at least 0. Received: resamples={resamples}")
        try:
            bleu = sacrebleu.BLEU(tokenize=tokenize, references=references)
        except (ImportError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"sacreBLEU's tokenizer {tokenize}: {reason}") from error
        self._size = lengths[0]
        self._resamples = resamples
        self._metrics = {
            "bleu": bleu,
            "chrf": sacrebleu.CHRF(references=references),
            "chrfpp": sacrebleu.CHRF(word_order=2, references=references),
        }
        # The signatures of the scores; after a bootstrap they would name the resamples too.
        self._signatures = self.signatures()

    def __call__(self, hypotheses: Sequence[str]) -> dict[str, Any]:
        self._check(hypotheses)
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
        """sacreBLEU's test of each system against the first.

        Args:
            systems: The translations of two systems or more, by the systems' names.
            test: `bootstrap`, paired bootstrap resampling with `resamples` (1,000 if that is 0 or
                1), or `randomization`, paired approximate randomization.

        Returns:
            A dict from each system's name to the p-value of each metric by its name, None for the
            first system; and the metrics' signatures by their names, which name the test.

        Raises:
            ValueError: If there is only one system, no such test, or a system's translations differ
                in number from the references.

        Reference:
            Bootstrap: Koehn 2004, as above; randomization: Riezler and Maxwell 2005, On Some
            Pitfalls in Automatic Evaluation and Significance Testing for MT
            (https://aclanthology.org/W05-0908).

        Example:

        >>> scorer = Scorer([["a b c d e", "f g h i j"] * 20])
        >>> systems = {"one": ["a b c d e", "f g h i j"] * 20, "two": ["a b c d", "f g h i"] * 20}
        >>> p_values, signatures = scorer.paired(systems, "bootstrap")
        >>> round(p_values["two"]["bleu"], 4)
        0.001
        """
        if test not in PAIRED_TESTS:
            raise InputError(
                f"test must be one of {', '.join(PAIRED_TESTS)}. Received: test={test!r}"
            )
        if len(systems) < 2:
            raise InputError(f"A paired test needs two systems at least. Received: {len(systems)}")
        for hypotheses in systems.values():
            self._check(hypotheses)
        resamples = self._resamples if test == "bootstrap" and self._resamples > 1 else 0
        signatures, results = PairedTest(
            list(systems.items()), self._metrics, None, PAIRED_TESTS[test], n_samples=resamples
        )()
        # Both are by sacreBLEU's names of the metrics, in the order of ours.
        columns = [results[name] for name in signatures]
        p_values = {
            system: {name: column[i].p_value for name, column in zip(METRICS, columns, strict=True)}
            for i, system in enumerate(systems)
        }
        return p_values, dict(zip(METRICS, map(str, signatures.values()), strict=True))

    def _check(self, hypotheses):
        if len(hypotheses) != self._size:
            raise InputError(
                f"There must be as many translations as references, {self._size:,}. "
                f"Received: {len(hypotheses):,}"
            )


def write_files(
    folder: str | os.PathLike,
    sources: Sequence[str],
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> None:
    """Writes sources, translations and references for other tools, a sentence on each line.

    They are `source.txt`; `hypothesis.txt`, `hypothesis.2.txt` and so on; and `reference.txt`,
    `reference.2.txt` and so on. The write is atomic.

    Args:
        folder: The folder to write, which must be new.
        sources: Sequence of str without line breaks.
        hypotheses: For each system such a sequence, its translations.
        references: For each reference such a sequence.

    Raises:
        FileExistsError: If the folder exists.

    Example:

    >>> write_files("scored", ["Oi!"], [["Hi!"]], [["Hello!"]])  # doctest: +SKIP
    """
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

    Args:
        systems: What a `Scorer` returns for each system, with its name as `system`. Any other float
            is a column too, and `bleu_p`, `chrf_p` and `chrfpp_p` are p-values.
        signatures: The metrics' signatures by their names.

    Returns:
        The table's text. A star marks a metric that differs from the first system's at p < 0.05.

    Example:

    >>> scores = {"bleu": 37.3, "bleu_ci": 1.3, "chrf": 61.1, "chrfpp": 59.0}
    >>> print(table([{"system": "runs/en_de", **scores}], {}))
                        BLEU   chrF  chrF++
    runs/en_de  37.30 ± 1.30  61.10   59.00
    """
    more = dict.fromkeys(
        name
        for system in systems
        for name, value in system.items()
        if isinstance(value, float) and name.partition("_")[0] not in METRICS
    )
    rows = [["", *METRICS.values(), *(name.replace("_", " ") for name in more)]]
    for system in systems:
        row = [system["system"]]
        for name in METRICS:
            cell = f"{system[name]:.2f}"
            if system.get(f"{name}_ci") is not None:
                cell += f" ± {system[f'{name}_ci']:.2f}"
            if system.get(f"{name}_p") is not None:
                p_value = system[f"{name}_p"]  # Which is low for equal systems too.
                differs = p_value < 0.05 and system[name] != systems[0][name]
                cell += f" (p = {p_value:.4f}){'*' if differs else ''}"
            row.append(cell)
        values = [system.get(name) for name in more]
        rows.append([*row, *("" if value is None else str(value) for value in values)])
    lines = _aligned(rows)
    width = max(map(len, METRICS.values()))
    below = [f"{METRICS[name]:{width}}  {text}" for name, text in signatures.items()]
    return "\n".join([*lines, "", *below] if below else lines)


def _aligned(rows):
    """Lines of a table's rows: the first column flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [f"{first:{widths[0]}}", *(f"{x:>{w}}" for x, w in zip(rest, widths[1:], strict=True))]
        ).rstrip()
        for first, *rest in rows
    ]
