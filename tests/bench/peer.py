"""peer.py: what the peers in Python have in common; stride_peer.c says in which words they speak."""
import math
import os
import sys
import time

LEAST = float(os.environ.get("BENCH_SECONDS", "0.05"))  # seconds of a measured repetition
FOLDER = os.environ.get("BENCH_FOLDER", ".")
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter


class Skip(Exception):
    """With a reason, or without one where nobody would expect it of this peer."""


def refuse(reason):
    print("skip", reason, flush=True)
    sys.exit()


try:
    import numpy
except ImportError:
    refuse("this python has no numpy")


def seconds_a_call(call):
    call()
    calls = 1
    while True:
        began = clock()
        for _ in range(calls):
            call()
        seconds = clock() - began
        if seconds >= LEAST:
            return seconds / calls
        calls = int(calls * min(10, 1.2 * LEAST / max(seconds, 1e-9))) + 1


def given():
    """What Stride has computed its result from (arrays.h): x, dy, the parameters, the states."""
    with open(os.path.join(FOLDER, "given"), "rb") as file:
        shapes = [tuple(map(int, shape.split("x"))) for shape in file.readline().decode().split()]
        return [numpy.fromfile(file, numpy.float32, math.prod(shape)).reshape(shape) for shape in shapes]


def write_result(arrays):
    with open(os.path.join(FOLDER, "result"), "wb") as file:
        file.write((" ".join("x".join(map(str, a.shape)) for a in arrays) + "\n").encode())
        for a in arrays:
            numpy.ascontiguousarray(a, numpy.float32).tofile(file)


def serve(about, work, result):
    """`work` makes a function of a request's words, `result` arrays."""
    print("ready", about, flush=True)
    for line in sys.stdin:
        words = line.split()
        try:
            if words[-1] == "result":
                write_result(result(words[:-1]))
                print("result", flush=True)
            else:
                print("ok", seconds_a_call(work(words)), -1, flush=True)
        except Skip as reason:
            print(f"skip {reason}".strip(), flush=True)
        except Exception as error:  # a compiler's, say
            print("error", " ".join(str(error).split())[:200], flush=True)
