#!/usr/bin/env bash
# What the tests need beside Rust: says in one line what is missing, and installs it where it can.
set -euo pipefail
missing=()
for need in go:golang curl:curl python3:python3 cc:gcc openssl:openssl ip:iproute2 nsenter:util-linux; do
    command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
((${#missing[@]})) || exit 0
[ "$(id -u)" = 0 ] || { echo "needs.sh: install first: sudo apt-get install ${missing[*]}" >&2; exit 1; }
echo "needs.sh: installing ${missing[*]}" >&2
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
