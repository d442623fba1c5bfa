"""onnx_peer.py: onnxruntime's side of a benchmark through its Python; stride_peer.c says in which words.

    python onnx_peer.py FOLDER PROVIDER

FOLDER holds the networks as NAME.onnx; PROVIDER is one of onnxruntime's: CPUExecutionProvider, say.
"""
import functools
import os
import sys

from peer import Skip, THREADS, pattern, refuse, serve

try:
    import numpy
    import onnxruntime
except ImportError:
    refuse("this python has no onnxruntime")

FOLDER, PROVIDER = sys.argv[1:]
if PROVIDER not in onnxruntime.get_available_providers():
    refuse(f"this onnxruntime has no {PROVIDER}")


@functools.lru_cache(maxsize=None)
def prepare(name, batch):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # XNNPACK has threads of its own.
    provider = (PROVIDER, {"intra_op_num_threads": str(THREADS)}) if "Xnnpack" in PROVIDER else PROVIDER
    session = onnxruntime.InferenceSession(os.path.join(FOLDER, name + ".onnx"), options, providers=[provider])
    name = session.get_inputs()[0].name
    feed = {name: numpy.random.rand(batch, 1, 28, 28).astype(numpy.float32)}
    known = 0.5 + pattern(numbers(batch * 784), 0).reshape(batch, 1, 28, 28)
    return (lambda: session.run(None, feed)), (lambda: session.run(None, {name: known.astype(numpy.float32)})[0])


def numbers(count):
    return numpy.arange(count, dtype=numpy.float64)


def work(words):
    if words[0] != "net" or words[3] != "infer":
        raise Skip()
    run, output = prepare(words[1], int(words[2]))
    return output() if words[-1] == "output" else run


serve(f"onnxruntime {onnxruntime.__version__} through Python, threads by intra_op_num_threads", work, numbers)
