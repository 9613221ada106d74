#!/usr/bin/env bash
# The main job with a virtual machine, shown step by step: a real libvirt behind a real sshd, a guest that
# boots and installs itself, leased, used, and gone again. Needs root.
#   KVM=1 make demo           brings all of it up on this machine, and takes it down again
#   KEEP=1 KVM=1 make demo    leaves it running and says how to go on by hand
# The guest runs under software emulation, since /dev/kvm may be there and yet run none: it takes about a
# minute to boot on an idle machine. The operator's addresses are as with demo.sh; the port after them
# serves the guest's image.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."

index=${LAB_INDEX:-199}
# Hypervisors have numbers of their own; tests with the same LAB_INDEX count from here, too.
hv=$index; ((index > 25)) || hv=$(((index - 1) * 8 + 1))
work=${TMPDIR:-/tmp}/egress-proxies-demo-kvm${LAB_INDEX:+-$LAB_INDEX}
target=${CARGO_TARGET_DIR:-target}/debug
fleet=demo-fleet
operator_pid='' judge_pid='' images_pid='' watch_pid=''
host_address='' host_user='' host_key='' host_known_hosts='' host_bridge='' host_pool=''  # what hypervisor.sh says

# shellcheck source=tests/lab/demo-words.sh
. tests/lab/demo-words.sh

on_host() { bash tests/lab/hypervisor.sh exec "$work" "$hv" "$@"; }
show() { printf '    host $ %s\n' "$*"; on_host "$@" | sed '/^$/d; s/^/      /'; }
domains() { on_host virsh list --all --name; }
volumes() { on_host virsh vol-list default | awk 'NR > 2 && NF {print $1}'; }

leave() {
    local code=$? pid
    if [ -n "${KEEP:-}" ] && [ $code = 0 ]; then return; fi
    trap '' INT TERM  # a second Ctrl-C must not leave half of it behind
    for pid in $watch_pid $operator_pid $judge_pid $images_pid; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done || true
    bash tests/lab/hypervisor.sh down "$work" "$hv" >/dev/null 2>&1 || true
    bash tests/lab/cluster.sh down "$work" "$index" >/dev/null 2>&1 || true
    exit $code
}
need cargo 'https://rustup.rs'
[ "$(id -u)" = 0 ] || fail 'a hypervisor in namespaces of its own needs root'
# A cluster of yours could be told of the VM, but the VM could not be told of your web: it sees the lab only.
[ -z "${KUBECONFIG:-}" ] || fail 'KVM=1 brings a cluster of its own up: unset KUBECONFIG'
bash tests/lab/needs.sh
addresses
images_port=$((${DEMO_PORT:-18090} + 3))
is_free "127.0.0.1:$images_port"
no_cluster
begins
mkdir -p "$work/images"; rm -f "$work/operator.log"

build

step 'Bring up a Kubernetes API server (the first time builds it: minutes)'
cluster up
site

step 'Bring up a hypervisor: libvirt behind sshd, a bridge with DHCP, a storage pool'
eval "$(bash tests/lab/hypervisor.sh up "$work" "$hv" 2>"$work/hypervisor.log" | sed -n 's/^\([a-z_]*=\)/host_\1/p')"
[ -n "$host_address" ] || { cat "$work/hypervisor.log"; fail 'the hypervisor did not come up'; }
show virsh list --all
show virsh vol-list default
before=$(domains)
took "$host_user@$host_address answers"

step 'Serve an image for guests: Debian with cloud-init, Squid and the guest agent (made once: 80 s)'
image=$(bash tests/lab/guest-image.sh guest)
ln -sf "$image" "$work/images/debian.qcow2"
python3 -m http.server "$images_port" --bind 127.0.0.1 --directory "$work/images" >"$work/images.log" 2>&1 &
images_pid=$!
for _ in $(seq 100); do curl -fsSI -o /dev/null "http://127.0.0.1:$images_port/debian.qcow2" 2>/dev/null && break; sleep 0.1; done
kill -0 $images_pid 2>/dev/null || fail "images cannot be served: $(cat "$work/images.log")"
sha256=$(sha256sum "$image" | cut -d' ' -f1)
took "$(du -h "$image" | cut -f1) at http://127.0.0.1:$images_port/debian.qcow2,"

definitions

step 'Start the operator with that hypervisor as its one host'
cat >"$work/providers.yaml" <<Y
providers:
  - name: home
    type: kvm
    kvm:
      sshKeyFile: $host_key
      knownHostsFile: $host_known_hosts
      diskSizeGb: 2
      images:
        debian: {url: "http://127.0.0.1:$images_port/debian.qcow2", sha256: $sha256}
      machineTypes:
        small: {vcpus: 1, memoryMiB: 512}
      hosts:
        - {name: nas1, address: "$host_address", user: $host_user, bridge: $host_bridge, pool: $host_pool, domainType: qemu}
Y
run "$target/proxy-operator" check-config "$work/providers.yaml"
operator

step 'Apply a Proxy that is a VM, and what it is to do at its first boot'
kubectl create namespace "$fleet" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
cat >"$work/fleet.yaml" <<Y
apiVersion: v1
kind: Secret
metadata:
  name: squid-vm
  labels: {crawl.example.com/cloud-init: "true"}
stringData:
  user-data: |
    #cloud-config
    write_files:
      - path: /etc/squid/conf.d/egress.conf
        content: |
          http_access allow localnet
          shutdown_lifetime 1 seconds
---
apiVersion: crawl.example.com/v1alpha1
kind: Proxy
metadata: {name: home-1}
spec:
  mode: Managed
  provider: home
  placement: {zone: nas1, machineType: small, image: debian}
  cloudInit: {secretRef: {name: squid-vm, key: user-data}}
  attributes: {city: home, kind: vm}
  healthCheck: {url: "$url"}
Y
run kubectl apply -n "$fleet" -f "$work/fleet.yaml"
took

step 'Watch it become Ready: the image goes to the pool, the VM boots (a minute on an idle machine), Squid serves'
printf '    $ kubectl get px -n %s -w\n' "$fleet"
kubectl get px -n "$fleet" -w > >(sed -u 's/^/      /') 2>&1 &
watch_pid=$!
kubectl wait -n "$fleet" --for=condition=Ready px/home-1 --timeout=900s >/dev/null || fail "it did not become Ready: $(kubectl get px -n "$fleet" home-1 -o jsonpath='{.status.conditions}')"
kill $watch_pid 2>/dev/null && wait $watch_pid 2>/dev/null || true
watch_pid=''
run kubectl get px -n "$fleet" -o wide
run kubectl get events -n "$fleet" -o custom-columns=REASON:.reason,MESSAGE:.message
show virsh list --all
show virsh vol-list default
took 'proven by fetching through it,'

step 'Lease it'
lease '{"selector": {"kind": "vm"}, "target": "10.76.'"$index"'.254", "ttlSeconds": 60}'

fetch

if [ -n "${KEEP:-}" ]; then
    printf '\n%sAll of it goes on running.%s To go on by hand:\n' "$bold" "$plain"
    cat <<Y
    export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$(command -v kubectl)"):\$PATH
    kubectl describe px -n $fleet home-1
    bash $PWD/tests/lab/hypervisor.sh exec $work $hv virsh list
    curl http://$api/v1/proxies
    tail -f $work/operator.log
To end it:
    kubectl delete px -n $fleet --all
    kill $operator_pid $judge_pid $images_pid
    bash $PWD/tests/lab/hypervisor.sh down $work $hv
    bash $PWD/tests/lab/cluster.sh down $work $index
Y
    disown -a
    exit 0
fi

step 'Delete the Proxy'
run kubectl delete px -n "$fleet" --all --timeout=180s
show virsh list --all
show virsh vol-list default
[ "$(domains)" = "$before" ] || fail 'the domains are not as before'
left=$(volumes | grep -v '^base-' || true)
[ -z "$left" ] || fail "left in the pool: $left"
took 'no domain and no disk of it is left, only the image for the next one,'

stop_operator
printf '\n%sThat was the main job, with a VM.%s `KEEP=1 KVM=1 make demo` leaves it running for you.\n' "$bold" "$plain"
