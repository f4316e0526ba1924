"""What the benchmarks share: systems in processes of their own that take turns, and their lines."""

import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

THREADS = "2"
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": THREADS,
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": THREADS,
}


def take_turns(commands, rounds, **environment):
    """Starts a worker of each command and asks each for a result in each round, after one to warm.

    Args:
        commands: Command lines by system; each process calls `serve`.
        rounds: Number of rounds.
        **environment: Variables to set otherwise than in `ENVIRONMENT`.

    Returns:
        The results of each system, lists of dicts.
    """
    workers = {
        system: subprocess.Popen(
            command,
            env={**ENVIRONMENT, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for system, command in commands.items()
    }
    results = {system: [] for system in workers}

    def ask(system):
        worker = workers[system]
        worker.stdin.write("run\n")
        worker.stdin.flush()
        for line in worker.stdout:
            if line.startswith("result "):
                return json.loads(line.removeprefix("result "))
        sys.exit(f"{system} failed; its messages are above.")

    for system in workers:
        ask(system)
    for _ in range(rounds):
        for system, result in results.items():
            result.append(ask(system))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return results


def serve(run):
    """In a worker's process: calls `run` for each line asked for, and answers with its time.

    Args:
        run: Function that does the work once and returns a dict, of which `amount` is the work.
    """
    for _ in sys.stdin:
        start = time.perf_counter()
        result = run()
        result = {
            "seconds": time.perf_counter() - start,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **result,
        }
        print("result", json.dumps(result), flush=True)


def report(benchmark, workload, results, unit, packages, output=None):
    """Prints a table, and writes a JSON line for each system, or prints it."""
    print(f"\n{workload:20} {unit:>16}   seconds   peak memory, MB")
    for system, rounds in results.items():
        value = statistics.median(result["amount"] / result["seconds"] for result in rounds)
        seconds = statistics.median(result["seconds"] for result in rounds)
        memory = max(result["memory"] for result in rounds)
        print(f"{system:20} {value:16.2f} {seconds:9.3f} {memory:17.0f}")
        line = {
            "benchmark": benchmark,
            "workload": workload,
            "system": system,
            "value": round(value, 3),
            "unit": unit,
            "seconds": [round(result["seconds"], 4) for result in rounds],
            "peak_memory_mb": round(memory),
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "versions": {name: metadata.version(name) for name in packages if installed(name)},
        }
        write_line(line, output)


def write_line(line, output=None):
    """Adds a JSON line to a file, or prints it."""
    if output:
        with open(output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    else:
        print(json.dumps(line))


def present(systems):
    """The systems whose package is installed; the others are named."""
    found = []
    for system, package in systems.items():
        if package == "keras_mt" or installed(package):
            found.append(system)
        else:
            print(f"{system}: {package} is not installed, left out", file=sys.stderr)
    return found


def installed(package):
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def machine():
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(": ")[1] for x in lines if x.startswith("model name")), model)
    return f"{os.cpu_count()} cores, {model}"
