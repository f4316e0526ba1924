"""Translates with TensorFlow Serving over REST. Needs only the package requests.

usage: python rest_client.py [--url URL] [--model NAME] [--timeout SECONDS] SENTENCE...

A multilingual model takes --source-language CODE and --target-language CODE.
"""

import argparse
import math
import sys
import time

import requests

# Seconds between attempts; after the last attempt its error is raised.
PAUSES = (0.5, 1, 2, 4, math.inf)
NO_HYPOTHESIS = -1e9  # The score of a place in the n-best list that has no hypothesis.


def translate(sentences, url, model, timeout, **languages):
    """The translations of each sentence with their scores, best first; none if it was refused.

    A multilingual model takes the codes `source_language` and `target_language`; each
    sentence could have its own.

    Raises:
        requests.RequestException: If the server cannot be reached or refuses, with what it says.
    """
    columns = {name: [code] * len(sentences) for name, code in languages.items()}
    body = {"signature_name": "serving_default", "inputs": {"text": sentences, **columns}}
    outputs = ask(f"{url}/v1/models/{model}:predict", body, timeout)["outputs"]
    return [
        [found for found in zip(*row, strict=True) if found[1] > NO_HYPOTHESIS]
        for row in zip(outputs["translations"], outputs["scores"], strict=True)
    ]


def ask(url, body, timeout):
    """The answer to a request, with all attempts within `timeout` seconds."""
    end = time.monotonic() + timeout
    for pause in PAUSES:
        try:
            response = requests.post(url, json=body, timeout=max(end - time.monotonic(), 0.01))
            if response.ok:
                return response.json()
            raise requests.HTTPError(
                f"{response.status_code} {response.reason}: {response.text}", response=response
            )
        except (requests.ConnectionError, requests.HTTPError) as error:
            # While the server starts, or has too many requests waiting, it cannot be reached or
            # answers 503: try again. Not after a timeout: it may still be busy with the request.
            refused = error.response is not None and error.response.status_code != 503
            if refused or time.monotonic() + pause >= end:
                raise
        time.sleep(pause)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE")
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--model", default="en_de")
    parser.add_argument("--timeout", type=float, default=30, help="in seconds")
    # Left out unless given; "" stands for the export's default.
    parser.add_argument("--source-language", default=argparse.SUPPRESS)
    parser.add_argument("--target-language", default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    try:
        found = translate(**options)
    except requests.RequestException as error:
        sys.exit(f"no translation from {options['url']}: {error}")
    for sentence, hypotheses in zip(options["sentences"], found, strict=True):
        if not hypotheses:
            sys.exit(f"{sentence!r} is refused: a language is not one of the export's")
        for translation, score in hypotheses:
            print(f"{score:.3f}\t{translation}")


if __name__ == "__main__":
    main()
