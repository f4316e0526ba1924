"""A stand-in for TensorFlow Serving: its two doors, made of its own protocol classes.

An export answers behind them. A model that is not there is refused with the server's words, the
first `unavailable` calls are turned away, as by a server that is starting, and each answer comes
after `delay` seconds.
"""

import contextlib
import json
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Servable:
    def __init__(self, signatures, name, unavailable=0, delay=0):
        self.signatures, self.name, self.unavailable = signatures, name, unavailable
        self.delay, self.calls = delay, 0

    def turned_away(self):
        self.calls += 1
        time.sleep(self.delay)
        self.unavailable -= 1
        return self.unavailable >= 0

    def predict(self, request):
        if request.model_spec.name != self.name:
            raise LookupError(f"Servable not found for request: Latest({request.model_spec.name})")
        signature = self.signatures[request.model_spec.signature_name or "serving_default"]
        specs = signature.structured_input_signature[1]
        if set(request.inputs) != set(specs):
            raise ValueError(f"input size does not match signature: {sorted(request.inputs)}")
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        (_,) = {len(array) for array in inputs.values()}  # The same batch in all, as batching asks.
        outputs = signature(**{n: tf.constant(x, specs[n].dtype) for n, x in inputs.items()})
        response = predict_pb2.PredictResponse()
        for name, tensor in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(np.asarray(tensor)))
        return response


class GrpcDoor(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, servable):
        self.servable = servable

    def Predict(self, request, context):  # noqa: N802 - the service's name for it
        if self.servable.turned_away():
            context.abort(grpc.StatusCode.UNAVAILABLE, "the batch queue is full")
        try:
            return self.servable.predict(request)
        except LookupError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))


def rest_answer(servable, name, body):
    """What the REST door makes of a request's body, by way of the protocol's classes."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = body.get("signature_name", "")
    columns = body.get("inputs")
    if columns is None:  # Rows: the batch outside, the names within.
        rows = body["instances"]
        columns = {key: [row[key] for row in rows] for key in rows[0]}
    for key, values in columns.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values))
    outputs = {
        key: tf.make_ndarray(proto) for key, proto in servable.predict(request).outputs.items()
    }
    outputs = {
        key: [[x.decode() if isinstance(x, bytes) else x for x in row] for row in array.tolist()]
        for key, array in outputs.items()
    }
    if "inputs" in body:
        return {"outputs": outputs}
    rows = zip(*outputs.values(), strict=True)
    return {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}


@contextlib.contextmanager
def rest_door(servable):
    """Serves REST; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, _, verb = self.path.removeprefix("/v1/models/").partition(":")
            try:
                if servable.turned_away():
                    status, answer = 503, {"error": "the batch queue is full"}
                else:
                    assert verb == "predict"
                    status, answer = 200, rest_answer(servable, name, body)
            except LookupError as error:
                status, answer = 404, {"error": str(error)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer, ensure_ascii=False).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextlib.contextmanager
def grpc_door(servable):
    """Serves gRPC; gives its address."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(GrpcDoor(servable), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)
