#!/usr/bin/env bash
# Runs gpu-check on a machine with a GPU and without a network, from what was brought along:
#
#   build/gpu-bundle/run OUT [ARGUMENTS OF gpu-check]        in the root of the sources there
#
# PYTHON=... chooses the interpreter. The wheels go to a folder of their own in front of its packages, not
# into an environment of their own: one that is made by a Python that lives in one itself does not see
# that one's packages, and libraries of CUDA are looked for in site-packages alone.
# Exit code: that of gpu-check; 3 where the wheels cannot be installed or loaded.
set -u
# What pip is told elsewhere (files that are not here, versions) is not for these packages.
unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT
if [ $# -lt 1 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
bundle=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
out=$1
shift
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile \
  --no-cache-dir --target "$site" "$bundle"/*.whl || exit 3
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
if ! "$python" -c "import sdbr, chainer; print('sdbr', sdbr.__version__, 'chainer', chainer.__version__)"; then
  echo "a package that they need is missing: make the bundle anew, --with it" >&2
  exit 3
fi
"$python" -m sdbr gpu-check --out "$out" "$@"
