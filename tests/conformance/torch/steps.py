"""The steps of suite_torch.sh in one process, as importing PyTorch takes longer than most of them: a line on stdin is a
step's words, those of cases.py or "onnx DATA FOLDER"; its lines end with "done STATUS"."""
import sys
import traceback

import cases


def step(name, *words):
    if name == "onnx":
        import onnx_cases  # onnx may be absent
        return onnx_cases.main(*words)
    return cases.main(name, *words)


for line in sys.stdin:
    try:
        status = int(bool(step(*line.split())))
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        status = 1
    print("done", status, flush=True)
