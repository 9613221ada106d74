#!/usr/bin/env bash
# Fuzzes a running lease API against its own /openapi.json, with every check on.
#
#   schemathesis.sh http://127.0.0.1:8090        with DISCOVERY_TOKEN in the environment if it needs one
#
# Exit 0: no 5xx, and no answer that the document does not describe. Schemathesis comes from PyPI into
# a folder of its own, named by its version, the first time.
set -euo pipefail

version=4.32.5
seconds=${SECONDS_OF_FUZZING:-20}
base=${1:?usage: schemathesis.sh BASE_URL}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab/schemathesis-$version

mkdir -p "$home"
(
    flock 9
    if [[ ! -e $home/complete ]]; then
        python3 -m venv --clear "$home/venv"
        "$home/venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
        touch "$home/complete"
    fi
) 9>"$home/lock"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
{
    echo "hooks = \"$here/schemathesis_hooks.py\""
    if [[ -n ${DISCOVERY_TOKEN:-} ]]; then
        # schemathesis reads the variable itself, so that the token is in no file. Set here and not as a
        # header, or its checks could not leave it out to see whether it is really asked for.
        echo '[auth.openapi.token]'
        # shellcheck disable=SC2016
        echo 'bearer = "${DISCOVERY_TOKEN}"'
    fi
} >schemathesis.toml
"$home/venv/bin/python" - "$base/openapi.json" >openapi.json <<'END'
import os, sys, urllib.request
request = urllib.request.Request(sys.argv[1])
if token := os.environ.get("DISCOVERY_TOKEN"):
    request.add_header("Authorization", f"Bearer {token}")
print(urllib.request.urlopen(request, timeout=10).read().decode())
END
# One worker: with two, CPython 3.11 now and then fails inside the generator ("AST constructor recursion
# depth mismatch"), which is no failure of the API.
"$home/venv/bin/st" --no-color --config-file schemathesis.toml run openapi.json --url "$base" \
    --checks all --phases examples,coverage,fuzzing,stateful --mode all --workers 1 \
    --max-time "$seconds" --request-timeout 10 --continue-on-failure \
    --suppress-health-check filter_too_much ${SEED:+--seed "$SEED"}
