#!/bin/sh
# Installs spillcast from this folder, without network: install.sh [DIRECTORY]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-$HOME/.local/share/spillcast}
mkdir -p "$to/bin"
cp "$here"/spillcast-recorder-* "$to/bin/spillcast-recorder"
chmod 755 "$to/bin/spillcast-recorder"
echo "installed $to/bin/spillcast-recorder"

for python in python3.14 python3.13 python3.12 python3.11 python3; do
    command -v "$python" >/dev/null 2>&1 || continue
    version=$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])' 2>/dev/null) || continue
    ls "$here"/wheels/numpy-*-cp"$version"-* >/dev/null 2>&1 || continue
    if ! "$python" -m venv "$to/python"; then
        echo "$python cannot make a virtual environment: install its venv package (python3-venv)" >&2
        exit 1
    fi
    "$to/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-index \
        --find-links "$here/wheels" spillcast
    ln -sf "$to/python/bin/spillcast" "$to/bin/spillcast"
    echo "installed $to/bin/spillcast by $python"
    exit 0
done
echo "no Python here that there are wheels for (3.11 or newer): the recorder alone was installed;" >&2
echo "  copy what it records to a machine with spillcast" >&2
