"""Requests to every signature of an export, as a server's clients make them."""

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2


def requests(sources, targets):
    """By signature, its inputs as lists."""
    texts = [*sources, "", "palavra " * 40, "</s> ▁ <pad> 😀", "a\x00\x07b", "Um. Dois!\n\nTrês?"]
    rows = range(len(texts))
    return {
        "serving_default": {"text": texts},
        "greedy": {"text": texts},
        "score": {"text": texts, "target": [targets[i % len(targets)] for i in rows]},
        "align": {"text": texts, "target": ["" if i % 2 else "the book" for i in rows]},
    }


DTYPES = {
    "text": tf.string, "target": tf.string,
    "source_language": tf.string, "target_language": tf.string,
}  # fmt: skip


def tensors(inputs):
    return {name: tf.constant(values, DTYPES[name]) for name, values in inputs.items()}


def predict_request(signature, inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "pt_en", signature
    for name, tensor in tensors(inputs).items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    return request
