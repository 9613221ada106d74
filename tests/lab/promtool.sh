#!/usr/bin/env bash
# Prints the path of promtool: the machine's own, or the one of Debian's package, which is unpacked and
# not installed, because installing it would start a Prometheus.
set -euo pipefail

if command -v promtool; then exit; fi
home=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab/promtool
mkdir -p "$home"
(
    flock 9
    if [[ ! -x $home/usr/bin/promtool ]]; then
        work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
        # The lists may be old or absent.
        (cd "$work" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; }) >&2
        dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
        mkdir -p "$home/usr/bin"
        mv "$work/root/usr/bin/promtool" "$home/usr/bin/"
    fi
) 9>"$home/lock"
echo "$home/usr/bin/promtool"
