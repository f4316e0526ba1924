"""The files of an export for TensorFlow Serving besides the graph."""
