#!/bin/sh
# Installs pinned requirements into an environment: install.sh PYTHON FILE...
#
# With uv, which takes a sixth of pip's time; with pip where there is no uv for the machine, or it fails. uv reads none of
# pip's settings, so that it is told those that say where packages come from.
set -eu

python=$1
shift
here=$(dirname "$0")
uv=$(dirname "$python")/uv

with_pip() {
  "$python" -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement "$1"
}

setting() { # name in files, value in the environment
  [ -n "$2" ] && echo "$2" || "$python" -m pip --disable-pip-version-check config get "global.$1" 2>/dev/null || true
}

index=$(setting index-url "${PIP_INDEX_URL:-}")
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
others=$(setting extra-index-url "${PIP_EXTRA_INDEX_URL:-}")
[ -z "$others" ] || export UV_INDEX="${UV_INDEX:-$others}"
links=$(setting find-links "${PIP_FIND_LINKS:-}" | tr ' ' ',')
[ -z "$links" ] || export UV_FIND_LINKS="${UV_FIND_LINKS:-$links}"
certificates=$(setting cert "${PIP_CERT:-}")
[ -z "$certificates" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificates}"
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}" UV_INDEX_STRATEGY="${UV_INDEX_STRATEGY:-unsafe-best-match}" # as pip does

[ -x "$uv" ] || with_pip "$here/installer.txt" || true
for file in "$@"; do
  "$uv" pip install --quiet --python "$python" --no-deps --require-hashes --requirement "$file" || with_pip "$file"
done
