"""Translates with TensorFlow Serving over REST. Needs requests alone.

usage: python rest_client.py [--url URL] [--model NAME] [--timeout SECONDS] SENTENCE...
"""

import argparse
import sys

import requests
from requests.adapters import HTTPAdapter, Retry

# While the server starts, or has too many requests waiting, it answers 503: try again. Not after a
# timeout, since the server may still be busy with the first.
RETRIES = Retry(
    total=4, read=False, backoff_factor=0.5, status_forcelist=[503], allowed_methods=None,
    raise_on_status=False,
)  # fmt: skip
NO_HYPOTHESIS = -1e9  # The score of a place in the list for which there is none.


def translate(sentences, url, model, timeout):
    """The translations of each sentence with their scores, best first; none if it was refused.

    Raises:
        requests.RequestException: If the server cannot be reached or refuses, with what it says.
    """
    with requests.Session() as session:
        session.mount(url, HTTPAdapter(max_retries=RETRIES))
        response = session.post(
            f"{url}/v1/models/{model}:predict",
            json={"signature_name": "serving_default", "inputs": {"text": sentences}},
            timeout=timeout,
        )
    if not response.ok:
        raise requests.HTTPError(f"{response.status_code} {response.reason}: {response.text}")
    outputs = response.json()["outputs"]
    return [
        [found for found in zip(*row, strict=True) if found[1] > NO_HYPOTHESIS]
        for row in zip(outputs["translations"], outputs["scores"], strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE")
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--model", default="en_de")
    parser.add_argument("--timeout", type=float, default=30, help="in seconds")
    options = parser.parse_args()
    try:
        found = translate(options.sentences, options.url, options.model, options.timeout)
    except requests.RequestException as error:
        sys.exit(f"no translation from {options.url}: {error}")
    for hypotheses in found:
        for translation, score in hypotheses:
            print(f"{score:.3f}\t{translation}")


if __name__ == "__main__":
    main()
