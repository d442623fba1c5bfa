"""onnx_peer.py: onnxruntime's side of a benchmark through its Python; stride_peer.c says in which words.

    python onnx_peer.py FOLDER PROVIDER

FOLDER holds the networks as NAME.onnx; PROVIDER is one of onnxruntime's: CPUExecutionProvider, say.
"""
import functools
import os
import sys

from peer import Skip, THREADS, given, numpy, refuse, serve

try:
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
    entry = session.get_inputs()[0].name
    return lambda x: session.run(None, {entry: x})[0]


def prepared(words):
    if words[0] != "net" or words[-1] != "infer":
        raise Skip()
    return prepare(words[1], int(words[2]))


def work(words):
    run, x = prepared(words), numpy.random.rand(int(words[2]), 1, 28, 28).astype(numpy.float32)
    return lambda: run(x)


def result(words):
    return [prepared(words)(given()[0])]


serve(f"onnxruntime {onnxruntime.__version__} through Python, threads by intra_op_num_threads", work, result)
