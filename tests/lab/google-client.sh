#!/usr/bin/env bash
# Drives a stand-in for Compute Engine with Google's own Python client.
#
#   TOKEN=… google-client.sh http://127.0.0.1:8085 lab-project
#
# Exit 0 and "all well": that client took it for Google. It comes from PyPI into a folder of its own,
# named by its version, the first time.
set -euo pipefail

version=1.57.0
endpoint=${1:?usage: google-client.sh ENDPOINT PROJECT} project=${2:?usage: google-client.sh ENDPOINT PROJECT}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab/google-cloud-compute-$version

mkdir -p "$home"
(
    flock 9
    if [[ ! -e $home/complete ]]; then
        python3 -m venv --clear "$home/venv"
        "$home/venv/bin/pip" install --quiet --disable-pip-version-check \
            "google-cloud-compute==$version" requests
        touch "$home/complete"
    fi
) 9>"$home/lock"

NO_PROXY=* exec "$home/venv/bin/python" "$here/gce/python_client.py" "$endpoint" "$project" "${TOKEN:?}"
