"""What the benchmarks share: systems in processes that take turns, and their JSON lines."""

import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
# Callers that work in parallel, and the threads inside the operations of each.
LAYOUTS = {f"{CORES}x1": (CORES, 1), "1": (1, 1), f"{CORES}": (1, CORES)}
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
# Up to AVX-512 with VNNI and bfloat16, for oneDNN (TensorFlow, PyTorch, CTranslate2), MKL and XLA.
_WITHOUT_AMX = {
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
    "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX512",
}


def instructions():
    """The names of the instruction sets to measure with, and the variables that choose them."""
    yield "all", {}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and "amx_tile" in cpuinfo.read_text():
        yield "without AMX", _WITHOUT_AMX


def own_layout():
    """In a worker's process: the number of callers, and the threads of each."""
    return int(os.environ["BENCHMARK_CALLERS"]), int(os.environ["OMP_NUM_THREADS"])


class _Workers:
    """A system's process with all its callers or, if they block each other, a process for each."""

    def __init__(self, command, layout, apart, variables):
        callers, threads = layout
        copies = callers if apart else 1
        environment = {
            **ENVIRONMENT,
            "BENCHMARK_CALLERS": str(callers // copies),
            "OMP_NUM_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(callers),
            "TF_NUM_INTRAOP_THREADS": str(threads),
            **variables,
        }
        self._processes = [
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(copies)
        ]

    def ask(self):
        """One result; None if the system failed."""
        for process in self._processes:
            if process.poll() is None:
                process.stdin.write("run\n")
                process.stdin.flush()
        results = [self._answer(process) for process in self._processes]
        if None in results:
            return None
        sums = "amount", "memory", "resident", "cpu_seconds", "first_cpu_seconds"
        totals = {name: sum(r[name] for r in results) for name in sums}
        return {**results[0], **totals, "seconds": max(r["seconds"] for r in results)}

    def _answer(self, process):
        lines = (x for x in process.stdout if x.startswith("result "))
        line = next(lines, None)
        return None if line is None else json.loads(line.removeprefix("result "))

    def end(self):
        for process in self._processes:
            process.stdin.close()
            process.wait()


def take_turns(commands, rounds, layouts=LAYOUTS, apart=(), **variables):
    """Measures each system at its best: each layout is tried alone, then the best ones take turns.

    A layout that the cores it leaves idle could not bring to half of the best rate so far ends the
    trials of its system. A system whose best is below half of the best rate takes no turns, and
    has its trials alone.

    Args:
        commands: Command lines by system; each process calls `serve`.
        rounds: Number of rounds.
        layouts: Callers and threads, by name.
        apart: Systems whose callers need a process each.
        **variables: Environment variables of the workers.

    Returns:
        For each system the results of its rounds, a list of dicts, with its layout as `threads`
        and, as `tried`, the rate of each layout.
    """

    def start(system, name):
        workers = _Workers(commands[system], layouts[name], system in apart, variables)
        if workers.ask() is None:  # The first one warms up.
            sys.exit(f"{system} failed; its messages are above.")
        return workers

    results, tried, most = {}, {}, 0
    for system in commands:
        trials = {}
        for name, (callers, threads) in layouts.items():
            workers = start(system, name)
            trials[name] = workers.ask()
            workers.end()
            print(f"tried {system}, {name}: {rate(trials[name]):.2f}", file=sys.stderr)
            if rate(trials[name]) * CORES / (callers * threads) < most / 2:
                break
        best = max(trials, key=lambda name: rate(trials[name]))
        tried[system] = {name: round(rate(trial), 3) for name, trial in trials.items()}
        results[system] = [{**trials[best], "threads": best}]
        most = max(most, rate(trials[best]))
    workers = {
        system: start(system, found[0]["threads"])
        for system, found in results.items()
        if rate(found[0]) >= most / 2
    }
    for _ in range(rounds):
        for system, each in workers.items():
            results[system].append({**each.ask(), "threads": results[system][0]["threads"]})
    for system, each in workers.items():
        del results[system][0]  # The trial was not measured in turn with the others.
        each.end()
    return {
        system: [{**result, "tried": tried[system]} for result in found]
        for system, found in results.items()
    }


def rate(result):
    return result["amount"] / result["seconds"]


def serve(run):
    """In a worker's process: for each line on standard input, calls `run` in each caller's thread.

    Args:
        run: Function that does the work once and returns a dict, whose `amount` is the work done.
    """
    callers, _ = own_layout()
    first = None
    with ThreadPoolExecutor(callers) as pool:
        for _ in sys.stdin:
            start, before = time.perf_counter(), time.process_time()
            # A single caller stays in the main thread, by which Keras keeps its settings.
            results = [run()] if callers == 1 else list(pool.map(lambda _: run(), range(callers)))
            after = time.process_time()
            first = first or after
            result = {
                "seconds": time.perf_counter() - start,
                "cpu_seconds": after - before,
                "first_cpu_seconds": first,  # With the imports and the loading.
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "resident": resident(),
                **results[0],
                "amount": sum(result["amount"] for result in results),
            }
            print("result", json.dumps(result), flush=True)


def resident():
    """The resident memory of this process, in MB; 0 where the system does not tell."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * resource.getpagesize() / 2**20 if path.exists() else 0


def report(benchmark, workload, results, unit, packages, output=None, instructions="all"):
    """Prints a table; writes or prints a JSON line for each system, and one for best/best."""
    title = workload if instructions == "all" else f"{workload} {instructions}"
    columns = "threads   seconds   first, CPU s   resident, MB   peak memory, MB"
    print(f"\n{title:28} {unit:>16}   {columns}")
    common = {
        "benchmark": benchmark,
        "workload": workload,
        "unit": unit,
        "instructions": instructions,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {name: metadata.version(name) for name in packages if installed(name)},
    }
    values = {}
    for system, rounds in results.items():
        values[system] = value = statistics.median(map(rate, rounds))
        seconds = statistics.median(result["seconds"] for result in rounds)
        memory = max(result["memory"] for result in rounds)
        threads, first = rounds[0]["threads"], rounds[0]["first_cpu_seconds"]
        resident = max(result["resident"] for result in rounds)
        print(
            f"{system:28} {value:16.2f} {threads:>9} {seconds:9.3f} {first:14.2f} {resident:14.0f} "
            f"{memory:17.0f}"
        )
        line = {
            **common,
            "system": system,
            "value": round(value, 3),
            "threads": threads,
            "tried": rounds[0]["tried"],
            "seconds": [round(result["seconds"], 4) for result in rounds],
            "cpu_seconds": [round(result["cpu_seconds"], 4) for result in rounds],
            "first_cpu_seconds": round(first, 2),
            "peak_memory_mb": round(memory),
            "resident_mb": round(resident),
            "disk_mb": rounds[0].get("disk") and round(rounds[0]["disk"] / 2**20, 1),
            "agreement": rounds[0].get("agreement"),
            "bleu": rounds[0].get("bleu"),
        }
        write_line(line, output)
    ours, peers = (
        [system for system in values if system.startswith("keras_mt") == own]
        for own in (True, False)
    )
    if ours and peers:
        ours, peer = (max(systems, key=values.get) for systems in (ours, peers))
        ratio = round(values[ours] / values[peer], 3)
        print(f"{'best/best':28} {ratio:16.3f}   {ours} over {peer}")
        both = {"ours": ours, "peer": peer}
        both |= {f"{side}_threads": results[name][0]["threads"] for side, name in both.items()}
        line = {**common, "system": "best/best", "value": ratio, "unit": "ratio", **both}
        write_line(line, output)


def write_line(line, output=None):
    """Adds a JSON line to a file, or prints it."""
    if output:
        with open(output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    else:
        print(json.dumps(line))


def names(given, known, what):
    """The names in a list with commas between them; exits if one is not known.

    With `what` "workload", for one: There is no workload 'x'; there are ...
    """
    given = given.split(",")
    for name in given:
        if name not in known:
            sys.exit(f"There is no {what} {name!r}; there are {', '.join(known)}.")
    return given


def present(systems):
    """The systems whose package is installed; the others are named on standard error."""
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
        fields = dict(reversed([map(str.strip, x.split(":", 1)) for x in lines if ":" in x]))
        model = fields.get("model name", model)
        if "cpu family" in fields:  # A virtual machine may name no model.
            model += f" (family {fields['cpu family']}, model {fields['model']})"
    return f"{os.cpu_count()} cores, {model}"
