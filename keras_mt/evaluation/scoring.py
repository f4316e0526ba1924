"""Scores of translations, all of them by sacreBLEU, and the terms that they keep."""

import collections
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sacrebleu
from sacrebleu.significance import PairedTest

from keras_mt.errors import InputError
from keras_mt.text import Glossary

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
        pairs = list(systems.items())
        signatures, results = PairedTest(pairs, self._metrics, None, kind, n_samples=resamples)()
        # Both are by sacreBLEU's names of the metrics, in the order of ours.
        columns = dict(zip(METRICS, (results[name] for name in signatures), strict=True))
        p_values = {
            system: {name: column[i].p_value for name, column in columns.items()}
            for i, system in enumerate(systems)
        }
        return p_values, dict(zip(METRICS, map(str, signatures.values()), strict=True))


def terms_kept(
    glossary: Glossary, sources: Sequence[str], translations: Sequence[str]
) -> tuple[int, float | None]:
    """The number of a glossary's terms in sources, and the share that their translations have.

    A term is found as a translator finds it, and its target as whole words, whatever their case.

    >>> terms_kept(Glossary({"bank": "Institut"}), ["A bank, a bank."], ["Ein Institut."])
    (2, 0.5)
    """
    wanted = collections.Counter(
        (i, term.target or source[start:end])
        for i, source in enumerate(sources)
        for start, end, term in glossary.find(source)
    )
    found = sum(
        min(number, len(Glossary([target]).find(translations[i])))
        for (i, target), number in wanted.items()
    )
    total = wanted.total()
    return total, found / total if total else None
