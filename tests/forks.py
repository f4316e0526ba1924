"""Stands for `python`, whose processes are forked after the import of TensorFlow.

usage: python forks.py SOCKET ARGUMENTS OF python
       python forks.py

The second is the server, whose standard input is a socket that listens; it imports at the first
request, and ends with the process that started it. The first is a process of `python ARGUMENTS`,
with its files, folder, environment and end; where it is killed, so is what was forked.
"""

import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path


def ask(path, arguments):
    """Has a program run; returns its exit status."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    socket.send_fds(server, [b"\n"], [0, 1, 2])
    request = {"arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)}
    server.sendall(json.dumps(request).encode() + b"\n")
    return int(server.makefile().readline())


def import_all():
    """Imports what takes programs long; TensorFlow does not start any threads yet."""
    import grpc  # noqa: F401
    import keras  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import sacrebleu  # noqa: F401
    import tensorflow as tf
    import tensorflow_text  # noqa: F401
    from tensorflow_serving.apis import prediction_service_pb2_grpc  # noqa: F401

    # As in conftest.py; and what is looked through for garbage is copied by each process.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.freeze()
    gc.set_threshold(50_000, 10, 2)


def request():
    """Returns each request in a process of its own; the first waits for the imports."""
    imported, listening, parent = False, socket.socket(fileno=0), os.getppid()
    listening.settimeout(1)
    while os.getppid() == parent:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        try:
            client, _ = listening.accept()
        except TimeoutError:
            continue
        if not imported:
            import_all()
            imported = True
        if not os.fork():
            break
        client.close()
    else:
        os._exit(0)
    listening.detach()  # Its place is that of the standard input.
    files = socket.recv_fds(client, 1, 3)[1]
    request = json.loads(client.makefile().readline())
    child = os.fork()
    if not child:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        client.close()
        return request
    for file in files:
        os.close(file)
    threading.Thread(target=end_with, args=(client, child), daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        client.sendall(f"{status}\n".encode())
    os._exit(0)


def end_with(client, child):
    """Kills a process when the one that stands for it has ended."""
    with contextlib.suppress(OSError):
        client.recv(1)
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__" and len(sys.argv) > 1:
    status = ask(sys.argv[1], sys.argv[2:])
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)

if __name__ == "__main__":
    request = request()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    script, *arguments = request["arguments"]
    if script in ("-c", "-m"):
        code, *arguments = arguments
        sys.argv, sys.path[0] = [script, *arguments], ""
    if script == "-c":
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    elif script == "-m":
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
        runpy.run_path(script, run_name="__main__")
