#!/usr/bin/env bash
# A real Kubernetes on one machine, built from Go modules: etcd, kube-apiserver and kubectl, and on
# demand a real node (scheduler, controller-manager, kubelet, containerd, CNI bridge).
#   cluster.sh all DIR INDEX       up, node, and the image lab.local/squid:1 on it (root; 15 s once built)
#   cluster.sh up DIR INDEX        control plane; prints kubeconfig=… server=… kubectl=…  (3 s once built)
#   cluster.sh node DIR INDEX      joins a real node; waits until it is Ready (about 10 s)
#   cluster.sh squid DIR INDEX     loads lab.local/squid:1 on the node
#   cluster.sh image DIR INDEX NAME LAYER.tar ENTRYPOINT…    loads a one-layer image; $IMAGE_USER is its user
#   cluster.sh down DIR INDEX      ends and removes all of it, whatever state it is in
#   cluster.sh build [node]        builds what is missing (cached; about 3 min, with node 5, on two cores)
#   cluster.sh squid-layer         prints the path of a root file system tar with Squid, from Debian's packages
#   cluster.sh squid-root          prints the path of a folder with the same, to run Squid in without a cluster
# Faults:
#   cluster.sh stop|start DIR INDEX COMPONENT     etcd apiserver scheduler manager containerd kubelet
#   cluster.sh freeze DIR INDEX COMPONENT [SECONDS]   time stands still for it, until `thaw` or for SECONDS
#   cluster.sh thaw DIR INDEX COMPONENT
#   cluster.sh cut DIR INDEX [SECONDS]   every packet to the cluster is lost without a word, until `mend` or for SECONDS
#   cluster.sh mend DIR INDEX
# INDEX 1..200. As root each cluster has a network namespace of its own: API at https://10.76.INDEX.1:443
# and, for its pods, at https://10.96.0.1:443; pods get 10.79.INDEX.0/24, are reachable from here and
# reach this machine, and nothing beyond it, at 10.76.0.1 and 10.76.INDEX.254 (nobody else's: a server
# that only one cluster's pods are to fetch from can have any port there).
# Without root the control plane listens on 127.0.0.1:(26000+INDEX) and there is no node.
# etcd, kube-apiserver and kubectl are taken from $KUBEBUILDER_ASSETS where that is set.
# `up` first removes what an earlier run with the same DIR and INDEX left behind. Where $LAB_OWNER holds
# the pid of the process that the cluster is for, nobody else may take it over while that one lives.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
verb=${1:-help}; shift || true
release=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$here/cluster/go.mod")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab
bins=$cache/$( (cd "$here/cluster" && cat go.mod go.sum ./*/*.go) | sha256sum | cut -c1-16)/bin
squid_image=lab.local/squid:1
# Runs what the pod says: nothing (Squid with its own configuration), options for Squid, or a command.
# shellcheck disable=SC2016  # it is the container's shell that expands this
squid_entry='case ${1:--N} in -*) exec squid "${@:--N}" ;; *) exec "$@" ;; esac'

die() { echo "cluster.sh: $*" >&2; exit 1; }

# --- what has to be there ---------------------------------------------------------------------------

packages() {  # command-or-file:package…  installs what is missing
    local missing=() p log
    for p; do command -v "${p%%:*}" >/dev/null || [ -e "${p%%:*}" ] || missing+=("${p##*:}"); done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || die "Debian packages are missing: sudo apt-get install ${missing[*]}"
    echo "cluster.sh: installing ${missing[*]}" >&2
    log=$(mktemp)
    # The lists may be old or absent, another apt may be at work, a foreign source may be out of reach.
    local try
    for try in 1 2 3 4 5; do
        if apt_get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then rm -f "$log"; return; fi
        apt_get update -qq >>"$log" 2>&1 || sleep "$try"
    done
    cat "$log" >&2; rm -f "$log"; die "apt-get install ${missing[*]} failed"
}
apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" 8>&- 9>&-; }

# One builder at a time: the cache is shared by all clusters of a user.
cache_lock() { mkdir -p "$cache"; exec 8>"$cache/lock"; flock -n 8 || { echo "cluster.sh: another run builds, waiting" >&2; flock 8; }; }
cache_unlock() { exec 8>&-; }

build() {  # name…
    local name missing=()
    have() { [ -x "$bins/$1" ] || [ -x "${KUBEBUILDER_ASSETS:-/nonexistent}/$1" ]; }
    for name; do have "$name" || missing+=("$name"); done
    ((${#missing[@]})) || return 0
    command -v go >/dev/null || die "building ${missing[*]} needs Go (or set KUBEBUILDER_ASSETS)"
    cache_lock
    missing=(); for name; do have "$name" || missing+=("$name"); done
    ((${#missing[@]})) || { cache_unlock; return 0; }
    mkdir -p "$bins"
    echo "cluster.sh: building ${missing[*]} $release (minutes; kept in $bins)" >&2
    local at=k8s.io/component-base/version minor=${release#v1.}; minor=${minor%%.*}
    local flags="-s -w -X $at.gitVersion=$release -X $at.gitMajor=1 -X $at.gitMinor=$minor"
    local targets=()
    for name in "${missing[@]}"; do
        case $name in etcd|pause) targets+=("./$name") ;; *) targets+=("k8s.io/kubernetes/cmd/$name") ;; esac
    done
    # Into a folder beside it first: a build that is cut short leaves no half-written program behind.
    rm -rf "$bins"/../part.*
    local part; part=$(mktemp -d "$bins/../part.XXXX")
    (cd "$here/cluster" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$flags" -o "$part/" "${targets[@]}") 8>&- 9>&-
    mv "$part"/* "$bins/"; rmdir "$part"
    cache_unlock
}
bin() { if [ -x "${KUBEBUILDER_ASSETS:-/nonexistent}/$1" ]; then echo "$KUBEBUILDER_ASSETS/$1"; else echo "$bins/$1"; fi; }

squid_layer() {
    local out=$cache/squid-bookworm.tar part
    if [ ! -s "$out" ]; then
        cache_lock
        if [ ! -s "$out" ]; then
            packages mmdebstrap:mmdebstrap
            part=$(mktemp -u "$cache/part.XXXX.tar")
            echo "cluster.sh: building Squid's root file system (kept in $out)" >&2
            mmdebstrap --quiet --variant=minbase --include=squid,ca-certificates bookworm "$part" >&2 8>&- 9>&-
            mv "$part" "$out"
        fi
        cache_unlock
    fi
    echo "$out"
}

squid_root() {
    local tar root=$cache/squid-bookworm part
    ((EUID == 0)) || die "Squid's root file system is entered with chroot, which needs root; or install Debian's squid"
    tar=$(squid_layer)
    if [ ! -x "$root/usr/sbin/squid" ]; then
        cache_lock
        if [ ! -x "$root/usr/sbin/squid" ]; then
            part=$(mktemp -d "$cache/part.XXXX")
            tar -C "$part" -xf "$tar"; chmod 755 "$part"; chmod 1777 "$part/dev/shm"
            rm -rf "$root"; mv "$part" "$root"
        fi
        cache_unlock
    fi
    echo "$root"
}

# --- one cluster ------------------------------------------------------------------------------------

place() {  # DIR INDEX
    if ! [[ ${1:-} && ${2:-} =~ ^[1-9][0-9]?[0-9]?$ ]] || (($2 > 200)); then
        echo "cluster.sh: $verb DIR INDEX, with INDEX 1..200" >&2; exit 2
    fi
    n=$2; mkdir -p "$1"; d=$(realpath "$1")/k8s$n
    if ((EUID == 0)); then ns=k8s$n; host=10.76.$n.1; port=443; else ns=; host=127.0.0.1; port=$((26000 + n)); fi
    etcd_port=$((27000 + n * 2)); server=https://$host:$port
}
# Addresses and ports belong to INDEX alone, so one run at a time per INDEX, whatever its DIR.
lock() {  # [seconds to wait]
    exec 9>"/tmp/egress-proxies-lab-$EUID-k8s$n.lock"
    flock -w "${1:-0}" 9 || die "another run is at work on cluster $n just now; wait for it, or use another INDEX"
}
mine() { grep -qsF "$d/" "/proc/$1/cmdline"; }
# A process is known by its pid and its start time: pids come back.
born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
claim() {  # refuses a cluster that is another's, notes whose it is now
    local pid start
    if [ -s "$d/owner" ]; then
        read -r pid start <"$d/owner"
        if [ "$pid" != "${LAB_OWNER:-}" ] && [ "$(born "$pid")" = "$start" ]; then
            die "cluster $n in $d belongs to process $pid, which is alive; use another INDEX"
        fi
    fi
    if [ -n "$ns" ]; then
        for pid in $(ip netns pids "$ns" 2>/dev/null); do
            # Every component of every cluster of this INDEX has DIR/k8sINDEX/ in its command line.
            if grep -qsF "/k8s$n/" "/proc/$pid/cmdline" && ! mine "$pid"; then
                die "cluster $n is in use by process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-120)); use another INDEX"
            fi
        done
    fi
}
inside() { if [ -n "$ns" ]; then nsenter --net="/run/netns/$ns" -- "$@"; else "$@"; fi; }
kc() { "$(bin kubectl)" --kubeconfig "$d/admin.kubeconfig" --request-timeout=5s "$@"; }
ctr_() { ctr -a "$d/run/containerd.sock" "$@"; }
wait_for() {  # what component seconds command…
    local what=$1 c=$2 s=$3; shift 3
    local until=$((SECONDS + s))
    while ((SECONDS < until)); do
        "$@" >/dev/null 2>&1 && return
        mine "$(cat "$d/run/$c.pid" 2>/dev/null)" || break
        sleep 0.2
    done
    tail -n 15 "$d/log/$c.log" >&2
    die "$what did not come up; see $d/log"
}

launch() {  # component
    local c=$1; set --
    case $c in
    etcd) set -- "$(bin etcd)" --data-dir "$d/etcd" --unsafe-no-fsync --log-level error \
            --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
            --listen-peer-urls "http://127.0.0.1:$((etcd_port + 1))" ;;
    apiserver) set -- "$(bin kube-apiserver)" --etcd-servers "http://127.0.0.1:$etcd_port" --cert-dir "$d/certs" \
            --secure-port "$port" --bind-address "$([ -n "$ns" ] && echo 0.0.0.0 || echo 127.0.0.1)" --advertise-address "$([ -n "$ns" ] && echo "$host" || echo 127.0.0.1)" \
            --token-auth-file "$d/etc/tokens.csv" --authorization-mode Node,RBAC --allow-privileged=true --kubelet-preferred-address-types InternalIP \
            --service-account-key-file "$d/etc/sa.key" --service-account-signing-key-file "$d/etc/sa.key" \
            --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range 10.96.0.0/24 \
            --tls-cert-file "$d/etc/api.crt" --tls-private-key-file "$d/etc/api.key" \
            --audit-policy-file "$d/etc/audit.yaml" --audit-log-path "$d/log/audit.log" ;;
    scheduler) set -- "$(bin kube-scheduler)" --kubeconfig "$d/etc/scheduler.kubeconfig" --leader-elect=false --bind-address 127.0.0.1 ;;
    manager) set -- "$(bin kube-controller-manager)" --kubeconfig "$d/etc/manager.kubeconfig" --leader-elect=false --bind-address 127.0.0.1 \
            --use-service-account-credentials=true --service-account-private-key-file "$d/etc/sa.key" --root-ca-file "$d/etc/ca.crt" \
            --controllers garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,pod-garbage-collector-controller,node-lifecycle-controller,taint-eviction-controller,resourcequota-controller,deployment-controller,replicaset-controller,endpointslice-controller,endpoints-controller,disruption-controller,horizontal-pod-autoscaler-controller ;;
    containerd) set -- containerd --config "$d/etc/containerd.toml" ;;
    kubelet) set -- "$(bin kubelet)" --config "$d/etc/kubelet.yaml" --kubeconfig "$d/etc/node.kubeconfig" \
            --hostname-override lab --root-dir "$d/kubelet" --cert-dir "$d/kubelet/pki" --node-ip "$host" ;;
    *) echo "cluster.sh: no component '$c'" >&2; exit 2 ;;
    esac
    # exec all the way down, so that the noted pid is the component's own; it must not keep our locks.
    if [ -n "$ns" ]; then set -- nsenter --net="/run/netns/$ns" -- "$@"; fi
    (exec setsid "$@" >>"$d/log/$c.log" 2>&1 </dev/null 8>&- 9>&-) & echo $! >"$d/run/$c.pid"
    # Until then it still looks like this script, and not like a component that runs.
    while kill -0 $! 2>/dev/null && ! mine $!; do sleep 0.02; done
}
component() {  # name  prints the pid, if it runs
    local pid; pid=$(cat "$d/run/$1.pid" 2>/dev/null) && mine "$pid" && echo "$pid"
}
running() { component "$1" || die "$1 of cluster $n does not run"; }
end() {  # component [signal]
    local pid; pid=$(component "$1") || { rm -f "$d/run/$1.pid"; return 0; }
    kill "-${2:-TERM}" "$pid" 2>/dev/null || true
    kill -CONT "$pid" 2>/dev/null || true
    for _ in $(seq 50); do grep -qs '^State:.[^Z]' "/proc/$pid/status" || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true; rm -f "$d/run/$1.pid"
}
say() { printf 'kubeconfig=%s\nserver=%s\nkubectl=%s\n' "$d/admin.kubeconfig" "$server" "$(bin kubectl)"; }

up() {
    packages openssl:openssl ip:iproute2 nsenter:util-linux sysctl:procps; build etcd kube-apiserver kubectl
    clear_away; mkdir -p "$d"/{run,log,etc}
    if [ -n "${LAB_OWNER:-}" ]; then echo "$LAB_OWNER $(born "$LAB_OWNER")" >"$d/owner"; fi
    if [ -n "$ns" ]; then
        # The address that every lab host reaches this machine by, and a guard: what is meant for a lab
        # host that is not there must not leave the machine.
        ip addr replace 10.76.0.1/32 dev lo; ip route replace unreachable 10.76.0.0/14 metric 9999
        ip netns add "$ns"; ip link add "$ns" type veth peer name up0 netns "$ns"
        ip addr add "10.76.$n.254/24" dev "$ns"; ip link set "$ns" up
        inside sh -ec "ip link set lo up; ip addr add 10.76.$n.1/24 dev up0; ip link set up0 up
            ip addr add 10.96.0.1/32 dev lo; ip route add 10.76.0.1 via 10.76.$n.254; sysctl -qw net.ipv4.ip_forward=1"
        ip route add "10.79.$n.0/24" via "10.76.$n.1"
    fi
    openssl ecparam -genkey -name prime256v1 -noout -out "$d/etc/sa.key"
    # A CA and a leaf: rustls takes no CA certificate for a server's own.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=lab-$n-ca" \
        -keyout "$d/etc/ca.key" -out "$d/etc/ca.crt" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=kube-apiserver" \
        -keyout "$d/etc/api.key" -out "$d/etc/api.csr" 2>/dev/null
    openssl x509 -req -in "$d/etc/api.csr" -CA "$d/etc/ca.crt" -CAkey "$d/etc/ca.key" -CAcreateserial -days 30 -out "$d/etc/api.crt" \
        -extfile <(printf 'subjectAltName=IP:%s,IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc,DNS:localhost\nextendedKeyUsage=serverAuth\n' "$host") 2>/dev/null
    : >"$d/etc/tokens.csv"
    local who user group token
    while read -r who user group; do
        token=$(openssl rand -hex 16); echo "$token,$user,$who,$group" >>"$d/etc/tokens.csv"
        cat >"$d/etc/$who.kubeconfig" <<C
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$server", certificate-authority-data: $(base64 -w0 "$d/etc/ca.crt")}}]
users: [{name: $who, user: {token: $token}}]
contexts: [{name: lab, context: {cluster: lab, user: $who}}]
current-context: lab
C
    done <<<"admin admin system:masters
scheduler system:kube-scheduler system:authenticated
manager system:kube-controller-manager system:authenticated
node system:node:lab system:nodes"
    # Who wrote what when, as witness of tests: only what an operator writes, and nothing of the contents.
    cat >"$d/etc/audit.yaml" <<C
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  resources:
  - {group: crawl.example.com, resources: [proxies, proxies/status, providerhealths, providerhealths/status]}
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: events.k8s.io, resources: [events]}
  - {group: "", resources: [pods]}
- level: None
C
    chmod 600 "$d"/etc/*; ln -sf "$d/etc/admin.kubeconfig" "$d/admin.kubeconfig"
    launch etcd; launch apiserver; wait_for kube-apiserver apiserver 120 kc get --raw /readyz
}

hierarchies() {  # the roots of the machine's cgroup trees, one (v2) or many (v1)
    awk '$(NF-2) ~ /^cgroup2?$/ {print $5}' /proc/self/mountinfo
}

node() {
    [ -n "$ns" ] || die "a node needs root"
    [ -s "$d/admin.kubeconfig" ] || die "cluster $n is not up in $d"
    packages containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins python3:python3
    build kubelet kube-scheduler kube-controller-manager pause
    mkdir -p "$d"/{cni,kubelet,pod-logs}
    # Without CAP_SYS_RESOURCE runc may not lower oom_score_adj, hence the restriction.
    cat >"$d/etc/containerd.toml" <<C
version = 2
root = "$d/containerd"
state = "$d/run/containerd"
[grpc]
  address = "$d/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "lab.local/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$d/cni"
C
    cat >"$d/cni/10-lab.conflist" <<C
{"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true,
 "ipam": {"type": "host-local", "dataDir": "$d/cni-ipam", "ranges": [[{"subnet": "10.79.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
C
    : >"$d/etc/resolv.conf"
    cat >"$d/etc/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /k8s$n
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
evictionHard: {imagefs.available: 0%, nodefs.available: 0%, memory.available: 50Mi}
containerRuntimeEndpoint: unix://$d/run/containerd.sock
resolvConf: $d/etc/resolv.conf
podLogsDir: $d/pod-logs
volumePluginDir: $d/kubelet/plugins
maxPods: 250
C
    # A cgroup of its own: kubelets with the same one take each other's pods for leftovers.
    local h
    while read -r h; do
        mkdir -p "$h/k8s$n"
        for f in cpuset.cpus cpuset.mems; do [ ! -e "$h/k8s$n/$f" ] || cat "$h/$f" >"$h/k8s$n/$f"; done
    done < <(hierarchies)
    launch scheduler; launch manager; launch containerd
    wait_for containerd containerd 60 ctr_ version
    mkdir -p "$d/pause" && cp "$bins/pause" "$d/pause/" && tar -C "$d/pause" -cf "$d/pause.tar" pause
    image lab.local/pause:1 "$d/pause.tar" /pause
    launch kubelet; wait_for node kubelet 120 kc wait --for=condition=Ready node/lab --timeout=1s
    wait_for "the default service account" manager 60 kc get serviceaccount default
}

image() {  # NAME LAYER.tar ENTRYPOINT…
    local name=$1 layer=$2; shift 2
    python3 "$here/cluster/image.py" "$name" "$layer" "${IMAGE_USER:-}" "$@" | ctr_ -n k8s.io images import - >&2
}
squid() {
    local layer; layer=$(squid_layer)
    # 13 is Debian's user proxy: a pod with runAsNonRoot needs a number.
    IMAGE_USER=13:13 image "$squid_image" "$layer" /bin/sh -c "$squid_entry" squid
}
all() { up; node; squid; }

clear_away() {  # idempotent: what is gone already is no error, and neither is what never was
    claim
    local c pid task
    end kubelet KILL
    end containerd KILL
    # Containers outlive containerd and their shims: end them by the pid that the runtime noted.
    for task in "$d"/run/containerd/io.containerd.runtime.v2.task/*/*/; do
        pid=$(cat "$task/init.pid" 2>/dev/null) || continue
        if grep -qsF "$(basename "$task")" "/proc/$pid/cgroup"; then kill -9 "$pid" 2>/dev/null || true; fi
    done
    for c in manager scheduler apiserver etcd; do end "$c" KILL; done
    # Shims, and components whose pid file is lost. Others may have our folder on their command line too.
    for pid in $(cd /proc && echo [0-9]*); do
        mine "$pid" || continue
        case $(basename "$(readlink "/proc/$pid/exe")") in
        etcd|kube-*|kubelet|containerd|containerd-shim-*) kill -9 "$pid" 2>/dev/null || true ;;
        esac
    done
    local tries=0
    while awk -v d="$d/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo | sort -r | xargs -r -n1 umount -l 2>/dev/null \
        && ((tries++ < 20)) && [ -d "$d" ] && ! rm -rf --one-file-system "$d" 2>/dev/null; do sleep 0.1; done
    if [ -n "$ns" ]; then
        ip route del "10.79.$n.0/24" 2>/dev/null || true; ip link del "$ns" 2>/dev/null || true
        ip netns del "$ns" 2>/dev/null || true
    fi
    if ((EUID == 0)); then
        for c in $(hierarchies); do find "$c/k8s$n" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
    fi
    rm -rf --one-file-system "$d"
}
down() { clear_away; rmdir "$(dirname "$d")" 2>/dev/null || true; }

# --- faults -----------------------------------------------------------------------------------------

for_a_while() {  # seconds undo  undoes even when it is interrupted
    [ -n "${1:-}" ] || return 0
    # shellcheck disable=SC2064  # the undoing is as it was at the start
    trap "$2" EXIT; trap 'exit 130' INT TERM
    sleep "$1" >/dev/null 2>&1 9>&- & wait $!  # a trap waits for a command in the foreground
}
cut_() {
    [ -n "$ns" ] || die "cutting the network needs root"
    ip neigh replace "10.76.$n.1" lladdr 02:00:00:00:00:01 nud permanent dev "$ns"
}
mend() { ip neigh del "10.76.$n.1" dev "$ns"; }

case $verb in
build) build etcd kube-apiserver kubectl; if [ "${1:-}" = node ]; then build kubelet kube-scheduler kube-controller-manager pause; fi; echo "$bins" ;;
squid-layer) squid_layer ;;
squid-root) squid_root ;;
up|all) place "$@"; lock; "$verb"; say ;;
node|squid) place "$@"; lock; "$verb" ;;
image) place "$@"; shift 2; lock; image "$@" ;;
down) place "$@"; lock 15; down ;;
stop) place "$@"; end "$3" ;;
start) place "$@"; if component "$3" >/dev/null; then die "$3 of cluster $n runs already"; fi; launch "$3" ;;
freeze) place "$@"; pid=$(running "$3"); kill -STOP "$pid"; for_a_while "${4:-}" "kill -CONT $pid" ;;
thaw) place "$@"; pid=$(running "$3"); kill -CONT "$pid" ;;
cut) place "$@"; cut_; for_a_while "${3:-}" mend ;;
mend) place "$@"; mend ;;
*) sed -n '2,26p' "$0"; exit 2 ;;
esac
