#!/bin/sh
# Checks and times the kernels, and a model that they serve, on this machine's CUDA device, in under eight minutes. It
# installs nothing: it needs the checkout's virtual environment with a CUDA build of torch and the extra `gpu`;
# flash-linear-attention is measured beside the recurrences where it is there too. Triton's compiled kernels stay in a
# directory of their own, gone at the end.
#
#   ops/gpu_check.sh            checks, then the tables; the result files go to bench/results/
#   ops/gpu_check.sh --dry-run  the same steps on the CPU under Triton's interpreter, with small shapes
#
# PYTHON names another interpreter. The exit status is 1 when a check fails; the tables are printed all the same.
set -u
cd "$(dirname "$0")/.." || exit 2
PYTHON=${PYTHON:-.venv/bin/python}
DRY=${1:-}
TRITON_CACHE_DIR=$(mktemp -d) || exit 2
export TRITON_CACHE_DIR TRITON_DEFAULT_FP_FUSION=1
trap 'rm -rf "$TRITON_CACHE_DIR"' EXIT
trap 'exit 130' INT TERM

case $DRY in
--dry-run)
    export TRITON_INTERPRET=1
    MARK='not gpu and not slow'
    BENCH=--dry-run
    ;;
'')
    unset TRITON_INTERPRET
    MARK=gpu
    BENCH=--write
    ;;
*)
    echo "usage: $0 [--dry-run]" >&2
    exit 2
    ;;
esac

"$PYTHON" - "$DRY" <<'CHECK' || exit 2
import importlib.util, sys, torch
triton = importlib.util.find_spec("triton")
print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, CUDA {torch.version.cuda},",
      f"triton {__import__('triton').__version__}" if triton else "no triton")
if sys.argv[1] == "":
    if not torch.cuda.is_available():
        sys.exit("There is no CUDA device; --dry-run goes through the steps on the CPU.")
    if not triton:
        sys.exit("Triton is not installed: pip install '.[gpu]'")
    print(torch.cuda.get_device_name(), "with", torch.cuda.get_device_properties(0).multi_processor_count, "processors")
CHECK

STATUS=0
timeout 210 "$PYTHON" -m pytest -q -m "$MARK" -p no:cacheprovider tests/engine/kernels \
    tests/engine/models/test_device_gpu.py tests/engine/decoding/test_device_engine.py || STATUS=1
timeout 170 "$PYTHON" -m bench kernels $BENCH || STATUS=1
timeout 90 "$PYTHON" -m bench step $BENCH || STATUS=1
exit $STATUS
