"""checker.py FOLDER: a line for each *.onnx there: its name, and what onnx's checker says: ok, or why not."""
import pathlib
import sys

try:
    import onnx
except ImportError:
    sys.exit(f'checker.py: {sys.executable} has no onnx (Debian: python3-onnx; make deps-onnx)')

failed = False
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.onnx')):
    verdict = 'ok'
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # whatever it is, the file is not accepted
        verdict = ' '.join(str(error).split())
        failed = True
    print(path.stem, verdict)
sys.exit(failed)
