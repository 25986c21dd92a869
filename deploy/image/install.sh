#!/bin/sh
# Install koordpy from a source tree into a virtual environment of its own, as the image has it:
#   install.sh SOURCE PREFIX
# Only the pinned runtime requirements go in; what builds the wheel stays outside, pip too.
set -eu
source=$(cd "$1" && pwd)
prefix=$2
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$source/requirements/build.txt"
"$work/build/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --wheel-dir "$work/wheel" "$source"

"$python" -m venv --without-pip "$prefix"
pip() { "$work/build/bin/pip" --python "$prefix/bin/python" --disable-pip-version-check "$@"; }
pip install --quiet --require-hashes -r "$source/requirements/runtime.txt"
pip install --quiet --no-deps "$work"/wheel/koordpy-*.whl
cd "$work" && "$prefix/bin/koordpy" version
