#!/bin/sh
# Installs and starts the QEMU guest agent, which tells the host the guest's addresses.
#
# Harmless to run again. Never fails, since there are other ways to an address, and gives up after a
# few minutes where no package can be had, since the user's own scripts come after it.
agent=qemu-guest-agent
attempts=2

log() { echo "$agent: $*"; }

has() { command -v "$1" >/dev/null 2>&1; }

# bounded SECONDS COMMAND...
bounded() {
    seconds=$1
    shift
    if has timeout; then timeout "$seconds" "$@"; else "$@"; fi </dev/null
}

attempt() {
    if has apt-get; then
        DEBIAN_FRONTEND=noninteractive
        export DEBIAN_FRONTEND
        bounded 60 apt-get -q -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 update
        bounded 120 apt-get -q -y -o DPkg::Lock::Timeout=60 --no-install-recommends install "$agent"
    elif has dnf; then
        bounded 120 dnf -q -y --setopt=timeout=15 --setopt=retries=2 install "$agent"
    elif has yum; then
        bounded 120 yum -q -y --setopt=timeout=15 --setopt=retries=2 install "$agent"
    elif has zypper; then
        bounded 120 zypper --quiet --non-interactive install --no-recommends "$agent"
    elif has apk; then
        bounded 60 apk add --no-cache "$agent"
    else
        log "no package manager that is known here"
        attempts=0
        return 1
    fi
}

install() {
    while [ "$attempts" -gt 0 ]; do
        attempt && has qemu-ga && return 0
        attempts=$((attempts - 1))
        [ "$attempts" -gt 0 ] && sleep 5
    done
    return 1
}

# A unit that nothing can enable, as Debian's, is started by udev; that "enable" fails says nothing.
start() {
    if has systemctl; then
        bounded 30 systemctl enable "$agent"
        bounded 30 systemctl start --no-block "$agent"
    elif has rc-service; then
        bounded 30 rc-update add "$agent" default
        bounded 30 rc-service "$agent" start
    else
        log "no service manager that is known here"
        return 1
    fi
}

if has qemu-ga || install; then
    start || log "not started"
else
    log "not installed"
fi
exit 0
