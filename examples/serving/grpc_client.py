"""Translates with TensorFlow Serving over gRPC. Needs the package tensorflow-serving-api.

usage: python grpc_client.py [--address HOST:PORT] [--model NAME] [--timeout SECONDS] SENTENCE...

A multilingual model takes --source-language CODE and --target-language CODE.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

# While the server starts, or has too many requests waiting, it answers UNAVAILABLE: try again.
RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": "tensorflow.serving.PredictionService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.5s",
                "maxBackoff": "4s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
NO_HYPOTHESIS = -1e9  # The score of a place in the n-best list that has no hypothesis.


def translate(sentences, address, model, timeout, **languages):
    """The translations of each sentence with their scores, best first; none if it was refused.

    A multilingual model takes the codes `source_language` and `target_language`.

    Raises:
        grpc.RpcError: If the server cannot be reached or refuses, with what it says.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    columns = {name: [code] * len(sentences) for name, code in languages.items()}
    for name, column in {"text": sentences, **columns}.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(column, tf.string))
    options = [("grpc.service_config", json.dumps(RETRIES))]
    with grpc.insecure_channel(address, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = stub.Predict(request, timeout=timeout).outputs
    rows = zip(*(tf.make_ndarray(outputs[n]) for n in ("translations", "scores")), strict=True)
    return [
        [(text.decode(), score) for text, score in zip(*row, strict=True) if score > NO_HYPOTHESIS]
        for row in rows
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE")
    parser.add_argument("--address", default="localhost:8500")
    parser.add_argument("--model", default="en_de")
    parser.add_argument("--timeout", type=float, default=30, help="in seconds")
    # Left out unless given; "" stands for the export's default.
    parser.add_argument("--source-language", default=argparse.SUPPRESS)
    parser.add_argument("--target-language", default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    try:
        found = translate(**options)
    except grpc.RpcError as error:
        sys.exit(
            f"no translation from {options['address']}: {error.code().name}: {error.details()}"
        )
    for sentence, hypotheses in zip(options["sentences"], found, strict=True):
        if not hypotheses:
            sys.exit(f"{sentence!r} is refused: a language is not one of the export's")
        for translation, score in hypotheses:
            print(f"{score:.3f}\t{translation}")


if __name__ == "__main__":
    main()
