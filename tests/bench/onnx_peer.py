"""onnx_peer.py: onnxruntime's side of a benchmark through its Python; stride_peer.c says in which words.

    python onnx_peer.py FOLDER [PROVIDER]

FOLDER holds the networks as NAME.onnx; PROVIDER is one of onnxruntime's (CPUExecutionProvider).
"""
import functools
import os
import sys
import time

try:
    import numpy
    import onnxruntime
except ImportError:
    print("skip this python has no onnxruntime", flush=True)
    sys.exit()

LEAST = 0.02  # seconds of a measured repetition
FOLDER, PROVIDER = (sys.argv[1:] + ["CPUExecutionProvider"])[:2]
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter


def provider():
    if PROVIDER == "XnnpackExecutionProvider":  # has threads of its own
        return (PROVIDER, {"intra_op_num_threads": str(THREADS)})
    return PROVIDER


@functools.lru_cache(maxsize=None)
def prepare(name, batch):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(FOLDER, name + ".onnx"), options, providers=[provider()])
    feed = {session.get_inputs()[0].name: numpy.random.rand(batch, 1, 28, 28).astype(numpy.float32)}
    return lambda: session.run(None, feed)


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


def main():
    if PROVIDER not in onnxruntime.get_available_providers():
        print("skip this onnxruntime has no", PROVIDER, flush=True)
        return
    print(f"ready onnxruntime {onnxruntime.__version__} through Python, {PROVIDER}, threads by intra_op_num_threads",
          flush=True)
    for line in sys.stdin:
        kind, name, *batch, which = line.split()
        if kind != "net" or which != "infer":
            print("skip", flush=True)
            continue
        try:
            print("ok", seconds_a_call(prepare(name, int(batch[0]))), -1, flush=True)
        except Exception as error:
            print("error", " ".join(str(error).split())[:200], flush=True)


main()
