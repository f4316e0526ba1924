"""Answers a server's requests the way a server does: a session, without keras_mt.

usage: python session.py SAVED_MODEL REQUESTS RESPONSES

REQUESTS is a TFRecord file of PredictionLog, such as a warm-up file; RESPONSES gets as many
PredictResponse.
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's ops
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

saved_model, requests, responses = sys.argv[1:]
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], saved_model)
    with tf.io.TFRecordWriter(responses) as writer:
        for record in tf.compat.v1.io.tf_record_iterator(requests):
            request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
            signature = loaded.signature_def[request.model_spec.signature_name]
            fetches = {name: info.name for name, info in signature.outputs.items()}
            feeds = {
                signature.inputs[name].name: tf.make_ndarray(proto)
                for name, proto in request.inputs.items()
            }
            response = predict_pb2.PredictResponse()
            for name, array in session.run(fetches, feeds).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(array))
            writer.write(response.SerializeToString())
assert not [name for name in sys.modules if name.startswith("keras_mt")]
print("answered with tensorflow", tf.__version__)
