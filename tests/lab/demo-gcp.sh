#!/usr/bin/env bash
# The main job with a VM of Compute Engine, shown step by step, on a machine that cannot reach Google: a
# stand-in speaks its REST protocol, and its instances answer through real Squids at their addresses.
#   GCP=local make demo           brings all of it up on this machine, and takes it down again
#   KEEP=1 GCP=local make demo    leaves it running and says how to go on by hand
# Needs root, for the API server's network. The stand-in is ten times as fast as Google ($GCP_SPEED). The
# operator's addresses are as with demo.sh; the port after them is the stand-in's.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."

index=${LAB_INDEX:-199}
work=${TMPDIR:-/tmp}/egress-proxies-demo-gcp${LAB_INDEX:+-$LAB_INDEX}
target=${CARGO_TARGET_DIR:-target}/debug
fleet=demo-fleet
zone=europe-west1-b
operator_pid='' judge_pid='' gce_pid='' watch_pid=''

# shellcheck source=tests/lab/demo-words.sh
. tests/lab/demo-words.sh

# What a person sees of the project, as Google's console shows it.
google() { curl -fsS -H "Authorization: Bearer $(cat "$work/token")" "$endpoint/compute/v1/projects/lab-project/$1"; }
instances() {
    google aggregated/instances | python3 -c 'import json, sys
for scope, found in json.load(sys.stdin)["items"].items():
    for vm in found.get("instances", []):
        nic = vm["networkInterfaces"][0]
        address = nic.get("accessConfigs", [{}])[0].get("natIP", "-")
        print(scope, vm["name"], vm["status"], address, *(f"{k}={v}" for k, v in sorted(vm.get("labels", {}).items())))'
}
firewalls() {
    google global/firewalls | python3 -c 'import json, sys
for rule in json.load(sys.stdin).get("items", []):
    ports = ",".join(p for a in rule["allowed"] for p in a["ports"])
    print(rule["name"], "tcp:" + ports, "from", ",".join(rule["sourceRanges"]), "to", ",".join(rule["targetTags"]))'
}
show() { printf '    google $ %s\n' "$1"; "$1" | sed 's/^/      /'; }

leave() {
    local code=$? pid
    if [ -n "${KEEP:-}" ] && [ $code = 0 ]; then return; fi
    trap '' INT TERM  # a second Ctrl-C must not leave half of it behind
    for pid in $watch_pid $operator_pid $judge_pid; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done || true
    # It takes its Squids with it when it is asked politely.
    if [ -n "$gce_pid" ]; then kill -INT "$gce_pid" 2>/dev/null && wait "$gce_pid" 2>/dev/null || true; fi
    bash tests/lab/cluster.sh down "$work" "$index" >/dev/null 2>&1 || true
    exit $code
}
need cargo 'https://rustup.rs'
[ "${GCP:-local}" = local ] || fail "GCP=$GCP: only GCP=local, the stand-in, is known"
[ "$(id -u)" = 0 ] || fail 'bringing up an API server needs root'
[ -z "${KUBECONFIG:-}" ] || fail 'GCP=local brings a cluster of its own up: unset KUBECONFIG'
bash tests/lab/needs.sh
addresses
gce_port=$((${DEMO_PORT:-18090} + 3)) endpoint=http://127.0.0.1:$((${DEMO_PORT:-18090} + 3))
is_free "127.0.0.1:$gce_port"
no_cluster
begins
mkdir -p "$work"; rm -f "$work/operator.log" "$work/gce.log" "$work/credentials.json" "$work/token"

build --example gce

step 'Bring up a Kubernetes API server (the first time builds it: minutes)'
cluster up
site

step 'Start the stand-in for Compute Engine, with a real Squid behind each instance that runs'
# Not in this terminal's group: Ctrl-C is for this script, which then ends it in order.
setsid "$target/examples/gce" --port "$gce_port" --proxy-port 3128 --speed "${GCP_SPEED:-10}" \
    --credentials-out "$work/credentials.json" --token-out "$work/token" >"$work/gce.log" 2>&1 &
gce_pid=$!
for _ in $(seq 600); do
    grep -q ready "$work/gce.log" && break
    kill -0 $gce_pid 2>/dev/null || fail "the stand-in did not start: $(cat "$work/gce.log")"
    sleep 0.1
done
grep -q ready "$work/gce.log" || fail "the stand-in is not ready: $(cat "$work/gce.log")"
took "$endpoint answers like https://compute.googleapis.com;"

definitions

step 'Start the operator with that project, and credentials as gcloud writes them'
cat >"$work/providers.yaml" <<Y
providers:
  - name: cloud
    type: gcp
    gcp:
      project: lab-project
      endpoint: $endpoint
      manageFirewall: true
      firewallSourceRanges: ["10.0.0.0/8"]
Y
run "$target/proxy-operator" check-config "$work/providers.yaml"
export GOOGLE_APPLICATION_CREDENTIALS=$work/credentials.json
operator

step 'Is the project reached, and may we look at its instances?'
for _ in $(seq 100); do kubectl get ph cloud >/dev/null 2>&1 && break; sleep 0.1; done
kubectl wait --for=condition=Ready ph/cloud --timeout=60s >/dev/null || fail "the provider is not Ready: $(kubectl get ph cloud -o yaml)"
run kubectl get ph cloud -o wide
took 'one page of one instance was asked for,'

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
    packages: [squid]
---
apiVersion: crawl.example.com/v1alpha1
kind: Proxy
metadata: {name: brussels}
spec:
  mode: Managed
  provider: cloud
  placement:
    zone: $zone
    machineType: e2-small
    image: projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64
  cloudInit: {secretRef: {name: squid-vm, key: user-data}}
  attributes: {city: brussels, kind: cloud}
  healthCheck: {url: "$url", periodSeconds: 5}
Y
run kubectl apply -n "$fleet" -f "$work/fleet.yaml"
operation=''
for _ in $(seq 300); do
    operation=$(kubectl get px -n "$fleet" brussels -o jsonpath='{.status.operation}')
    [ -z "$operation" ] || break
    sleep 0.1
done
[ -n "$operation" ] || fail 'no operation is on record'
run kubectl get px -n "$fleet" brussels -o jsonpath='providerID {.status.providerID}{"\n"}operation  {.status.operation}{"\n"}'
took "Google accepted it, and that is on record,"

step 'Watch it become Ready: Google makes the VM, which has an address then, and a fetch goes through it'
printf '    $ kubectl get px -n %s -w\n' "$fleet"
kubectl get px -n "$fleet" -w > >(sed -u 's/^/      /') 2>&1 &
watch_pid=$!
kubectl wait -n "$fleet" --for=condition=Ready px/brussels --timeout=300s >/dev/null || fail "it did not become Ready: $(kubectl get px -n "$fleet" brussels -o jsonpath='{.status.conditions}')"
kill $watch_pid 2>/dev/null && wait $watch_pid 2>/dev/null || true
watch_pid=''
run kubectl get px -n "$fleet" -o wide
run kubectl get events -n "$fleet" -o custom-columns=REASON:.reason,MESSAGE:.message
show instances
show firewalls
took 'proven by fetching through it,'

step 'Lease it'
lease '{"selector": {"kind": "cloud"}, "target": "10.76.'"$index"'.254", "ttlSeconds": 60}'

fetch

if [ -n "${KEEP:-}" ]; then
    printf '\n%sAll of it goes on running.%s To go on by hand:\n' "$bold" "$plain"
    cat <<Y
    export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$(command -v kubectl)"):\$PATH
    kubectl describe px -n $fleet brussels
    curl -H "Authorization: Bearer \$(cat $work/token)" $endpoint/compute/v1/projects/lab-project/aggregated/instances
    curl http://$api/v1/proxies
    tail -f $work/operator.log
To end it:
    kubectl delete px -n $fleet --all
    kill $operator_pid $judge_pid; kill -INT $gce_pid
    bash $PWD/tests/lab/cluster.sh down $work $index
Y
    disown -a
    exit 0
fi

step 'Delete the Proxy'
run kubectl delete px -n "$fleet" --all --timeout=180s
show instances
show firewalls
[ -z "$(instances)" ] || fail "left behind: $(instances)"
for _ in $(seq 100); do [ -z "$(firewalls)" ] && break; sleep 0.1; done
[ -z "$(firewalls)" ] || fail "left behind: $(firewalls)"
took 'no VM and no firewall rule is left,'

stop_operator
printf '\n%sThat was the main job, with a VM of Compute Engine.%s `KEEP=1 GCP=local make demo` leaves it running for you.\n' "$bold" "$plain"
