#!/usr/bin/env bash
# Real hypervisors on one machine: each is a libvirtd, an sshd, a bridge with DHCP and a storage pool on a
# file system of its own, in network and mount namespaces of its own. Needs root.
#   hypervisor.sh up DIR INDEX      prints address=… user=… key=… known_hosts=… bridge=… pool=…   (2 s)
#   hypervisor.sh down DIR INDEX    ends and removes all of it, whatever state it is in
#   hypervisor.sh exec DIR INDEX COMMAND…    runs on the host: virsh list, behind everybody's back
# Faults:
#   hypervisor.sh stop|start DIR INDEX sshd|libvirtd   sshd goes with its connections, libvirtd without its guests
#   hypervisor.sh freeze DIR INDEX sshd|libvirtd [SECONDS]   time stands still for it, until `thaw` or for SECONDS
#   hypervisor.sh thaw DIR INDEX sshd|libvirtd
#   hypervisor.sh hangup DIR INDEX          ends every SSH connection; new ones are taken
#   hypervisor.sh cut DIR INDEX [SECONDS]   every packet to the host is lost without a word, until `mend` or for SECONDS
#   hypervisor.sh mend DIR INDEX
#   hypervisor.sh fill DIR INDEX BYTES      leaves so many bytes free in the pool, until `drain`
#   hypervisor.sh drain DIR INDEX
# INDEX 1..200. The host answers SSH on 10.77.INDEX.1:22; its guests get 10.78.INDEX.50 to .200, are
# reachable from here through it and reach this machine, and nothing beyond it, at 10.76.*. Hosts with
# one DIR share the key and the known_hosts file in it, and may be started side by side. The pool has
# $POOL_GIB (64), which take room on this machine only as they are written to.
# Use `domainType: qemu`: /dev/kvm may be there and yet run no guest.
# `up` first removes what an earlier run with the same DIR and INDEX left behind. Where $LAB_OWNER holds
# the pid of the process that the host is for, nobody else may take it over while that one lives.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/lab/packages.sh
. "$here/packages.sh"
verb=${1:-help}; shift || true
cache=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab

die() { echo "hypervisor.sh: $*" >&2; exit 1; }

place() {  # DIR INDEX
    if ! [[ ${1:-} && ${2:-} =~ ^[1-9][0-9]?[0-9]?$ ]] || (($2 > 200)); then
        echo "hypervisor.sh: $verb DIR INDEX, with INDEX 1..200" >&2; exit 2
    fi
    ((EUID == 0)) || die "a hypervisor needs root"
    n=$2; mkdir -p "$1"; dir=$(realpath "$1"); ns=hv$n; d=$dir/$ns; host=10.77.$n.1
}
# Addresses belong to INDEX alone, so one run at a time per INDEX, whatever its DIR.
lock() {  # [seconds to wait]
    exec 9>"/tmp/egress-proxies-lab-$EUID-hv$n.lock"
    flock -w "${1:-0}" 9 || die "another run is at work on hypervisor $n just now; wait for it, or use another INDEX"
}
# Key and known_hosts are shared by the hosts of one DIR.
shared() { (flock 7; "$@") 7>"/tmp/egress-proxies-lab-$EUID-$(cksum <<<"$dir" | cut -d' ' -f1).lock"; }
mine() { grep -qsF "$d/" "/proc/$1/cmdline"; }
# A process is known by its pid and its start time: pids come back.
born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
claim() {  # refuses a host that is another's
    local pid start
    if [ -s "$d/owner" ]; then
        read -r pid start <"$d/owner"
        if [ "$pid" != "${LAB_OWNER:-}" ] && [ "$(born "$pid")" = "$start" ]; then
            die "hypervisor $n in $d belongs to process $pid, which is alive; use another INDEX"
        fi
    fi
    for pid in $(ip netns pids "$ns" 2>/dev/null); do
        # The daemons of every host of this INDEX have DIR/hvINDEX/ in their command line.
        if grep -qsF "/hv$n/" "/proc/$pid/cmdline" && ! mine "$pid"; then
            die "hypervisor $n is in use by process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-120)); use another INDEX"
        fi
    done
}
# What is started in a host must not keep our locks.
inside() { nsenter --net="/run/netns/$ns" --mount="$dir/.ns/$ns" -- "$@" 7>&- 8>&- 9>&-; }
virsh_() { inside virsh -q -c qemu:///system "$@"; }

daemon() {  # sshd|libvirtd  prints the pid, if it runs
    local file pid
    case $1 in
    sshd) file=$d/ssh/sshd.pid ;;
    libvirtd) file=$d/run/libvirtd.pid ;;
    *) echo "hypervisor.sh: no daemon '$1'" >&2; exit 2 ;;
    esac
    pid=$(cat "$file" 2>/dev/null) && grep -qs '^State:.[^Z]' "/proc/$pid/status" && mine "$pid" && echo "$pid"
}
connections() {  # the pids of sshd's children
    local pid
    for pid in $(ip netns pids "$ns" 2>/dev/null); do
        case $(readlink "/proc/$pid/exe") in */sshd*) mine "$pid" || echo "$pid" ;; esac
    done
}
launch() {
    case $1 in
    sshd) inside /usr/sbin/sshd -f "$d/ssh/sshd_config" ;;
    libvirtd) inside python3 "$here/hypervisor/orphans.py" libvirtd -d -p "$d/run/libvirtd.pid" ;;
    esac
}
gone() {  # pid…  kills what does not go by itself
    local pid
    for pid; do
        for _ in $(seq 100); do grep -qs '^State:.[^Z]' "/proc/$pid/status" || continue 2; sleep 0.05; done
        kill -9 "$pid" 2>/dev/null || true
    done
}
stop() {  # sshd|libvirtd [signal]
    local pid pids; pid=$(daemon "$1") || return 0
    pids=("$pid"); if [ "$1" = sshd ]; then mapfile -t -O 1 pids < <(connections); fi
    kill "-${2:-TERM}" "${pids[@]}" 2>/dev/null || true
    kill -CONT "${pids[@]}" 2>/dev/null || true
    gone "${pids[@]}"
}
answers() { virsh_ version >/dev/null 2>&1; }
wait_for() {  # what seconds command…
    local what=$1 until=$((SECONDS + $2)); shift 2
    while ((SECONDS < until)); do "$@" && return; sleep 0.05; done
    tail -n 15 "$d"/log/*.log >&2 || true
    die "$what of hypervisor $n did not come up; see $d/log"
}

new_key() { [ -f "$dir/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C lab -f "$dir/id_ed25519"; }
forget() { [ ! -f "$dir/known_hosts" ] || { grep -v "^10\.77\.$n\.1 " "$dir/known_hosts" >"$dir/.known" || true; mv "$dir/.known" "$dir/known_hosts"; }; }
remember() {
    forget; touch "$dir/known_hosts"; cp "$dir/known_hosts" "$dir/.known"
    echo "$host $(cut -d' ' -f1,2 "$d/ssh/host_key.pub")" >>"$dir/.known"; mv "$dir/.known" "$dir/known_hosts"
}
keep_capabilities() {  # for the next one; whoever comes last leaves his
    diff -qr "$d/cache/qemu" "$cache/libvirt-qemu" >/dev/null 2>&1 && return
    mkdir -p "$cache"
    local part; part=$(mktemp -d "$cache/libvirt-qemu.part.XXXX")
    cp -a "$d/cache/qemu/." "$part/"; chmod 755 "$part"
    # A folder cannot replace another in one step; without it the next host takes its 8 s.
    rm -rf "$cache/libvirt-qemu"; mv -T "$part" "$cache/libvirt-qemu" 2>/dev/null || rm -rf "$part"
}
shared_mount() { mountpoint -q "$dir/.ns" || { mount --bind "$dir/.ns" "$dir/.ns"; mount --make-private "$dir/.ns"; }; }

up() {
    packages libvirtd:libvirt-daemon-system virsh:libvirt-clients qemu-system-x86_64:qemu-system-x86 \
        qemu-img:qemu-utils /usr/share/OVMF/OVMF_CODE_4M.fd:ovmf /usr/sbin/sshd:openssh-server ssh-keygen:openssh-client \
        dnsmasq:dnsmasq-base python3:python3 ip:iproute2 nsenter:util-linux sysctl:procps mke2fs:e2fsprogs losetup:mount
    clear_away
    mkdir -p "$d"/{etc,lib,run,log,cache,ssh,disk} "$dir/.ns"; chmod 755 "$dir" "$d"
    if [ -n "${LAB_OWNER:-}" ]; then echo "$LAB_OWNER $(born "$LAB_OWNER")" >"$d/owner"; fi
    cp -a /etc/libvirt/. "$d/etc/"
    rm -rf "$d"/etc/qemu/networks/autostart/* "$d"/etc/storage
    printf 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\n' >>"$d/etc/qemu.conf"
    printf 'log_outputs = "3:file:%s"\n' "$d/log/libvirtd.log" >>"$d/etc/libvirtd.conf"

    # The address that every lab host reaches this machine by, and a guard: what is meant for a lab
    # host that is not there must not leave the machine.
    ip addr replace 10.76.0.1/32 dev lo; ip route replace unreachable 10.76.0.0/14 metric 9999
    ip netns add "$ns"
    ip link add "$ns" type veth peer name up0 netns "$ns"
    ip addr add "10.77.$n.254/24" dev "$ns"; ip link set "$ns" up
    nsenter --net="/run/netns/$ns" sh -ec "
        ip link set lo up; ip addr add $host/24 dev up0; ip link set up0 up
        ip route add 10.76.0.0/16 via 10.77.$n.254
        ip link add br0 type bridge; ip addr add 10.78.$n.1/24 dev br0; ip link set br0 up
        sysctl -qw net.ipv4.ip_forward=1"
    ip route add "10.78.$n.0/24" via "$host"

    # A mount namespace with the host's own directories, kept by a bind mount of its handle. The pool's
    # file system is mounted in there only, so it goes when the namespace does.
    shared shared_mount; touch "$dir/.ns/$ns"
    mkdir -p /run/libvirt /run/sshd /var/lib/libvirt /var/log/libvirt /var/cache/libvirt
    truncate -s "${POOL_GIB:-64}G" "$d/disk.ext4"
    mke2fs -q -t ext4 -m 0 -O ^has_journal -E lazy_itable_init=1,nodiscard,root_owner=0:0 "$d/disk.ext4"
    local loop; loop=$(losetup -f)
    [ -e "$loop" ] || mknod "$loop" b 7 "${loop#/dev/loop}" 2>/dev/null || true
    unshare --mount="$dir/.ns/$ns" --propagation private sh -ec "
        mount --bind $d/etc /etc/libvirt; mount --bind $d/lib /var/lib/libvirt; mount --bind $d/run /run/libvirt
        mount --bind $d/log /var/log/libvirt; mount --bind $d/cache /var/cache/libvirt
        mount -o loop,noatime,noinit_itable,discard $d/disk.ext4 $d/disk; mkdir $d/disk/images"

    shared new_key
    ssh-keygen -q -t ed25519 -N '' -f "$d/ssh/host_key"
    install -m 600 "$dir/id_ed25519.pub" "$d/ssh/authorized_keys"
    shared remember
    cat >"$d/ssh/sshd_config" <<C
ListenAddress $host
HostKey $d/ssh/host_key
AuthorizedKeysFile $d/ssh/authorized_keys
PidFile $d/ssh/sshd.pid
StrictModes no
UsePAM no
# A shell that is asked something must not read what this machine's user has in his start-up files.
SetEnv HOME=/nonexistent
PasswordAuthentication no
AllowStreamLocalForwarding yes
MaxStartups 100
C
    inside setsid virtlogd -d -p "$d/run/virtlogd.pid"
    # What libvirt found out about QEMU (8 s); it asks again where that is not of this libvirt and QEMU.
    [ ! -d "$cache/libvirt-qemu" ] || cp -a "$cache/libvirt-qemu" "$d/cache/qemu"
    launch libvirtd; launch sshd
    inside dnsmasq --interface=br0 --bind-interfaces --except-interface=lo --no-resolv --no-hosts --no-ping --conf-file=/dev/null \
        --dhcp-range="10.78.$n.50,10.78.$n.200,1h" --dhcp-leasefile="$d/leases" --pid-file="$d/dnsmasq.pid"
    wait_for libvirtd 60 answers
    keep_capabilities
    # Whom it is for may be gone by now, and with it who would end it.
    if [ -n "${LAB_OWNER:-}" ] && [ -z "$(born "$LAB_OWNER")" ]; then down; die "process $LAB_OWNER is gone"; fi
    virsh_ "pool-define-as default dir --target $d/disk/images; pool-start default; pool-autostart default" >&2
}
say() {
    printf 'address=%s:22\nuser=root\nkey=%s\nknown_hosts=%s\nbridge=br0\npool=default\n' \
        "$host" "$dir/id_ed25519" "$dir/known_hosts"
}

clear_away() {  # idempotent: what is gone already is no error, and neither is what never was
    claim
    local pids
    # Guests, daemons and connections: all that runs in the host's network runs on the host.
    pids=$(ip netns pids "$ns" 2>/dev/null || true)
    if [ -n "$pids" ]; then
        # shellcheck disable=SC2086  # one word each
        kill -9 $pids 2>/dev/null || true
        # shellcheck disable=SC2086
        gone $pids
    fi
    ip route del "10.78.$n.0/24" 2>/dev/null || true
    ip link del "$ns" 2>/dev/null || true
    ip netns del "$ns" 2>/dev/null || true
    umount "$dir/.ns/$ns" 2>/dev/null || true
    rm -rf --one-file-system "$d" "$dir/.ns/$ns"
    shared forget
}
take_shared() {  # what hosts share goes with the last of them
    ! compgen -G "$dir/hv*" >/dev/null || return 0
    umount "$dir/.ns" 2>/dev/null || true
    rm -rf "$dir"/{.ns,id_ed25519,id_ed25519.pub,known_hosts,.known}
    rmdir "$dir" 2>/dev/null || true
}
down() { clear_away; shared take_shared; }

# --- faults -----------------------------------------------------------------------------------------

for_a_while() {  # seconds undo  undoes even when it is interrupted
    [ -n "${1:-}" ] || return 0
    # shellcheck disable=SC2064  # the undoing is as it was at the start
    trap "$2" EXIT; trap 'exit 130' INT TERM
    sleep "$1" >/dev/null 2>&1 9>&- & wait $!  # a trap waits for a command in the foreground
}
signalled() {  # signal daemon
    local pid pids; pid=$(daemon "$2") || die "$2 of hypervisor $n does not run"
    pids=("$pid"); if [ "$2" = sshd ]; then mapfile -t -O 1 pids < <(connections); fi
    kill "-$1" "${pids[@]}"
}
cut_() { ip neigh replace "$host" lladdr 02:00:00:00:00:01 nud permanent dev "$ns"; }
mend() { ip neigh del "$host" dev "$ns"; }
drain() { inside rm -f "$d/disk/filler"; }
fill() {  # BYTES
    [[ ${1:-} =~ ^[0-9]+$ ]] || die "fill DIR INDEX BYTES"
    local free _
    for _ in {1..20}; do
        drain
        free=$(inside stat -f -c '%a*%S' "$d/disk"); free=$((free))
        ((free > $1)) || return 0
        # Guests and transfers may have taken some of it meanwhile.
        ! inside fallocate -l $((free - $1)) "$d/disk/filler" || return 0
    done
    die "the pool of hypervisor $n fills and empties too fast"
}

case $verb in
up) place "$@"; lock; up; say ;;
down) place "$@"; lock 15; down ;;
exec) place "$@"; shift 2; inside "$@" ;;
stop) place "$@"; stop "$3" ;;
start) place "$@"; if daemon "$3" >/dev/null; then die "$3 of hypervisor $n runs already"; fi
    launch "$3"; if [ "$3" = libvirtd ]; then wait_for libvirtd 60 answers; fi ;;
freeze) place "$@"; signalled STOP "$3"; for_a_while "${4:-}" "signalled CONT $3" ;;
thaw) place "$@"; signalled CONT "$3" ;;
hangup) place "$@"; mapfile -t pids < <(connections); ((${#pids[@]} == 0)) || { kill -9 "${pids[@]}" 2>/dev/null || true; gone "${pids[@]}"; } ;;
cut) place "$@"; cut_; for_a_while "${3:-}" mend ;;
mend) place "$@"; mend ;;
fill) place "$@"; fill "${3:-}" ;;
drain) place "$@"; drain ;;
*) sed -n '2,24p' "$0"; exit 2 ;;
esac
