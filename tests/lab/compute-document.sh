#!/usr/bin/env bash
# Prints the path of compute.v1.json, Google's own description of the Compute Engine API.
#
#   compute-document.sh v1             of the API as it was before it had dated versions
#   compute-document.sh 2026-09-01     of that version
#
# A client names the version with each request ($apiVersion), or none: Google's Python client names none,
# its Rust client 2026-09-01. They differ: v1 takes returnPartialSuccess for lists of instances, the other
# does not. The document comes from PyPI, as a file of google-api-python-client, into a folder named by
# that release, the first time.
set -euo pipefail

case ${1:?usage: compute-document.sh API_VERSION} in
    v1) release=2.200.0 ;;
    2026-09-01) release=2.201.0 ;;
    *) echo "compute-document.sh: no release is known for version $1" >&2; exit 2 ;;
esac
home=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab/compute-document-$release
mkdir -p "$home"
(
    flock 9
    if [[ ! -e $home/compute.v1.json ]]; then
        work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
        python3 -m venv "$work/venv"
        "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" \
            "google-api-python-client==$release" >&2
        python3 - "$work" "$home" "$1" <<'END'
import glob, json, os, sys, zipfile
work, home, version = sys.argv[1:]
[wheel] = glob.glob(f"{work}/*.whl")
with zipfile.ZipFile(wheel) as files:
    document = files.read("googleapiclient/discovery_cache/documents/compute.v1.json")
described = json.loads(document)["serviceVersion"]
assert described == version, f"{wheel} describes {described}"
with open(f"{home}/new", "wb") as file:
    file.write(document)
os.rename(f"{home}/new", f"{home}/compute.v1.json")
END
    fi
) 9>"$home/lock"
echo "$home/compute.v1.json"
