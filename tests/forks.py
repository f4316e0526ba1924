"""Runs Python programs in processes that are forked after the import of TensorFlow.

usage: python forks.py SOCKET

Each line that the socket gives is a request, JSON: the arguments of `python`, the files that are
its standard input, output and error, and its folder. The answer is a line with its exit status.
"""

import json
import os
import runpy
import socket
import sys
from pathlib import Path

# What programs import that takes long. TensorFlow has not started any threads yet.
import grpc  # noqa: F401
import keras  # noqa: F401
import matplotlib.figure  # noqa: F401
import sacrebleu  # noqa: F401
import tensorflow as tf  # noqa: F401
import tensorflow_text  # noqa: F401
from tensorflow_serving.apis import prediction_service_pb2_grpc  # noqa: F401


def request(server):
    """Returns each request in a process of its own, one after another."""
    for line in server:
        child = os.fork()
        if not child:
            return json.loads(line)
        server.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        server.flush()
    os._exit(0)


if __name__ == "__main__":
    request = request(socket.socket(fileno=int(sys.argv[1])).makefile("rw"))
    for number, path in enumerate(request["files"]):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    script, *arguments = request["arguments"]
    if script == "-c":
        code, *arguments = arguments
        sys.argv, sys.path[0] = ["-c", *arguments], ""
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
        runpy.run_path(script, run_name="__main__")
