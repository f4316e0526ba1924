"""Metrics that are programs of their own, such as comet-score."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from keras_mt.errors import InputError

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_SCORE = re.compile(rf"(?:^|score:?\s)\s*([-+]?(?:{_NUMBER}|(?i:nan|inf)))\s*$")


def external_scores(
    command: str | Sequence[str],
    source: str | os.PathLike,
    hypothesis: str | os.PathLike,
    reference: str | os.PathLike,
) -> dict[str, float]:
    """Runs a program on the files of a system, and takes its scores from what it prints.

    They are read from the last line of its standard output that has any: a JSON object, whose
    numbers are taken by their names; or a number, alone or after `score:` at the end of the line,
    as comet-score prints it, which is called `comet`.

    Args:
        command: The program and its options, as a shell would split them (but no shell runs it), or
            a list. The words `{source}`, `{hypothesis}` and `{reference}` in it stand for the
            files; where it has none of them, `-s SOURCE -t HYPOTHESIS -r REFERENCE` is added.
        source, hypothesis, reference: The files, with a sentence on each line.

    Returns:
        Scores by their names.

    Raises:
        ValueError: If the program fails, or prints no score or one that is not finite, or the
            command is empty or not quoted as in a shell.
        FileNotFoundError: If there is no such program.

    Example:

    >>> external_scores("echo {hypothesis} score: 0.8412", "in.txt", "out.txt", "ref.txt")
    {'comet': 0.8412}
    """
    words = command_words(command)
    files = {"source": source, "hypothesis": hypothesis, "reference": reference}
    places = {f"{{{name}}}": os.path.abspath(path) for name, path in files.items()}
    if not any(place in word for word in words for place in places):
        words += ["-s", "{source}", "-t", "{hypothesis}", "-r", "{reference}"]
    for place, path in places.items():
        words = [word.replace(place, path) for word in words]
    # What it writes on standard error, such as its progress, is the user's to see.
    result = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    shown = "\n".join(result.stdout.splitlines()[-5:])
    if result.returncode:
        failed = f"{shlex.join(words)} failed with status {result.returncode}.\n{shown}"
        raise InputError(failed.rstrip())
    for line in reversed(result.stdout.splitlines()):
        if scores := _scores(line):
            # The line above it may be a sentence's score, which is not the system's.
            if not all(map(math.isfinite, scores.values())):
                raise InputError(f"{shlex.join(words)} gave a score that is not finite.\n{shown}")
            return scores
    raise InputError(
        f"{shlex.join(words)} printed no score: its last line should be a JSON object of numbers, "
        f"a number, or end with `score: NUMBER`.\n{shown}".rstrip()
    )


def command_words(command: str | Sequence[str]) -> list[str]:
    """The words of a command whose program exists.

    Args:
        command: As in `external_scores`.

    Returns:
        A list of str, the program first.

    Raises:
        ValueError: If the command is empty, or not quoted as in a shell.
        FileNotFoundError: If there is no such program.

    Example:

    >>> command_words("echo 'two words'")
    ['echo', 'two words']
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise InputError(f"The command {command!r} cannot be split into words: {error}.") from None
    if not words:
        raise InputError("The command of a metric must name a program. Received: nothing")
    if shutil.which(words[0]) is None:
        raise FileNotFoundError(
            f"There is no program {words[0]!r}: give its path, such as venv/bin/comet-score."
        )
    return words


def _scores(line):
    """The scores in a line; an empty dict if there are none."""
    try:
        value = json.loads(line)
    except ValueError:
        match = _SCORE.search(line)
        value = float(match[1]) if match else {}
    values = value if isinstance(value, dict) else {"comet": value}
    return {name: float(x) for name, x in values.items() if type(x) in (int, float)}
