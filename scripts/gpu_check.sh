#!/usr/bin/env bash
# Tells on a machine with an NVIDIA GPU what holds and what does not; run it from the package that scripts/package makes.
#   scripts/gpu_check.sh [--simulate] [--output FOLDER] [--model DIR] [--short] [--resume] [--step NAME]...
# --help says the rest. Needs Python 3.9 and nothing installed with it; a Python with torch for the step that checks torch.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for python in ${SUPERPIPE_CHECK_PYTHON:-python3}; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    exec "$python" -B "$here/gpu_check/main.py" "$@"
  fi
done
echo "gpu_check: needs Python 3.9 or newer as '${SUPERPIPE_CHECK_PYTHON:-python3}'; SUPERPIPE_CHECK_PYTHON names another" >&2
exit 122
