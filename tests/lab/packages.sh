# Sourced by the lab's scripts: Debian packages, installed where they are missing.
# shellcheck shell=bash

packages() {  # command-or-file:package…  installs what is missing
    local missing=() p log try
    for p; do command -v "${p%%:*}" >/dev/null || [ -e "${p%%:*}" ] || missing+=("${p##*:}"); done
    ((${#missing[@]})) || return 0
    local me; me=$(basename "$0")
    ((EUID == 0)) || { echo "$me: install first: sudo apt-get install ${missing[*]}" >&2; exit 1; }
    echo "$me: installing ${missing[*]}" >&2
    log=$(mktemp)
    # The lists may be old or absent, another apt may be at work, a foreign source may be out of reach.
    for try in 1 2 3 4 5; do
        if install_quietly "${missing[@]}" >"$log" 2>&1; then rm -f "$log"; return; fi
        # A qemu-utils newer than the release's keeps the release's qemu-system-x86 out.
        if [[ " ${missing[*]} " == *" qemu-"* ]] && ((try > 1)) && install_quietly --allow-downgrades \
            "${missing[@]}" "qemu-utils/$(. /etc/os-release; echo "$VERSION_CODENAME")" qemu-block-extra- >>"$log" 2>&1; then
            rm -f "$log"; return
        fi
        apt_get update -qq >>"$log" 2>&1 || sleep "$try"
    done
    cat "$log" >&2; rm -f "$log"; echo "$me: apt-get install ${missing[*]} failed" >&2; exit 1
}
# Builders' and labs' locks are theirs alone, not those of what they start.
apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" 8>&- 9>&-; }
install_quietly() (  # a package must not start its daemons on this machine: the lab starts its own
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap 'rm -f $policy' EXIT; trap 'exit 130' INT TERM
        printf '#!/bin/sh\nexit 101\n' >$policy; chmod 755 $policy
    fi
    apt_get install -y -qq --no-install-recommends "$@"
)
