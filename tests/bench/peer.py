"""peer.py: what the peers in Python have in common; stride_peer.c says in which words they speak."""
import os
import sys
import time

LEAST = 0.05  # seconds of a measured repetition
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter


class Skip(Exception):
    """With a reason, or without one where nobody would expect it of this peer."""


def refuse(reason):
    print("skip", reason, flush=True)
    sys.exit()


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


def pattern(numbers, k):
    """outline.h's, of an array of the numbers 0, 1, ... in double: the same weights and inputs on every side."""
    return (numbers * 7919 + k * 104729) % 1009 / 1009 - 0.5


def outline(y, numbers):
    """Of an array: what stride_peer.c says of a result. `numbers` makes an array of so many numbers in double."""
    flat = y.reshape(-1)
    count = len(flat)
    flat = flat + 0 * numbers(count)
    product = float(flat @ pattern(numbers(count), 1))
    picked = [float(flat[k * (count - 1) // 11]) for k in range(12)]
    return " ".join(["x".join(map(str, y.shape)), *(f"{v:.9g}" for v in [float(abs(flat).max()), product, *picked])])


def serve(about, work, numbers):
    """`work` makes a function of a request's words, or the result that they ask for."""
    print("ready", about, flush=True)
    for line in sys.stdin:
        try:
            if line.split()[-1] == "output":
                print("output", outline(work(line.split()), numbers), flush=True)
                continue
            print("ok", seconds_a_call(work(line.split())), -1, flush=True)
        except Skip as reason:
            print(f"skip {reason}".strip(), flush=True)
        except Exception as error:  # a compiler's, say
            print("error", " ".join(str(error).split())[:200], flush=True)
