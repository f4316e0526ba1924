"""Trains like a cluster, with several processes on this machine.

usage: python examples/cluster/local.py WORKERS [ARGUMENTS OF keras-mt train]

Each process gets the environment variable TF_CONFIG, like a worker of a real cluster. If
one fails, the others are killed.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time


def free_addresses(count):
    with contextlib.ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [f"127.0.0.1:{stack.enter_context(each).getsockname()[1]}" for each in servers]


def main(workers, arguments):
    ended = []  # Noted, not raised: no worker may be orphaned while it is being started.
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    addresses = free_addresses(workers)
    processes = []
    try:
        for index in range(workers):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "keras_mt", "train", *arguments],
                    env={**os.environ, "TF_CONFIG": json.dumps(config)},
                )
            )
        statuses = [None]
        while None in statuses and not any(statuses) and not ended:
            time.sleep(0.2)
            statuses = [process.poll() for process in processes]
        return 128 + signal.SIGTERM if ended else int(any(statuses))
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
