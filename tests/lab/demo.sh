#!/usr/bin/env bash
# The main job, shown step by step: a fleet by kubectl, proven, leased over HTTP, and gone again.
#   tests/lab/demo.sh            brings a Kubernetes up on this machine (root), and takes it down again
#   KEEP=1 tests/lab/demo.sh     leaves all of it running and says how to go on by hand
#   KUBECONFIG=… tests/lab/demo.sh   uses that cluster; its pods must be reachable from this machine
# With KUBECONFIG the proxies fetch $DEMO_URL (default https://www.gstatic.com/generate_204), the crawler
# $DEMO_PAGE (the same), and the pods are of $DEMO_IMAGE; the definitions stay in the cluster.
# The operator's addresses are 127.0.0.1:$DEMO_PORT (18090) for the lease API, and the next two ports.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."

index=${LAB_INDEX:-199}
work=${TMPDIR:-/tmp}/egress-proxies-demo
target=${CARGO_TARGET_DIR:-target}/debug
own_cluster=1; [ -z "${KUBECONFIG:-}" ] || own_cluster=
fleet=demo-fleet        # the Proxies, and their pods
legacy=demo-legacy      # a proxy that somebody else runs
operator_pid='' judge_pid=''

bold='' plain=''; [ ! -t 1 ] || { bold=$'\e[1m' plain=$'\e[0m'; }
number=0 begun=$(date +%s%N)
step() { number=$((number + 1)); begun=$(date +%s%N); printf '\n%s%2d. %s%s\n' "$bold" "$number" "$*" "$plain"; }
took() { awk -v ns=$(($(date +%s%N) - begun)) -v done="${1:-done}" 'BEGIN {printf "    %s in %.1f s\n", done, ns / 1e9}'; }
run() { printf '    $ %s\n' "$*"; "$@" 2>&1 | sed 's/^/      /'; }
fail() { printf '\ndemo: %s\n' "$*" >&2; [ -f "$work/operator.log" ] && { echo "the operator's last words:"; tail -n 20 "$work/operator.log"; } >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "needs $1${2:+: $2}"; }

# Deletes the Proxies; where the operator does not let them go, their pods go with the namespace.
release_fleet() {
    kubectl delete px -n "$fleet" --all --timeout=30s && return
    kubectl get px -n "$fleet" -o name |
        xargs -r -I{} kubectl patch -n "$fleet" {} --type merge -p '{"metadata": {"finalizers": null}}'
}

leave() {
    local code=$?
    if [ -n "${KEEP:-}" ] && [ $code = 0 ]; then return; fi
    # In a cluster of yours nothing may be left that waits for an operator that is gone.
    [ -n "$own_cluster" ] || release_fleet >/dev/null 2>&1 || true
    for pid in $operator_pid $judge_pid; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done || true
    if [ -n "$own_cluster" ]; then bash tests/lab/cluster.sh down "$work" "$index" >/dev/null 2>&1 || true
    else kubectl delete namespace "$fleet" "$legacy" --ignore-not-found --wait=false >/dev/null 2>&1 || true; fi
    exit $code
}
trap leave EXIT
trap 'exit 130' INT TERM

need cargo 'https://rustup.rs'
if [ -n "$own_cluster" ]; then bash tests/lab/needs.sh; else for program in cc curl python3; do need "$program"; done; fi
mkdir -p "$work"; rm -f "$work/operator.log"
port=${DEMO_PORT:-18090}; api=127.0.0.1:$port metrics=127.0.0.1:$((port + 1)) health=127.0.0.1:$((port + 2))
# An operator of an earlier KEEP=1 would answer in place of this one.
for address in "$api" "$metrics" "$health"; do
    if (exec 3<>"/dev/tcp/${address/://}") 2>/dev/null; then fail "$address is taken, by an earlier demo perhaps: end that, or set DEMO_PORT"; fi
done

step 'Build the operator (the first time compiles it all: minutes)'
cargo build --quiet --bin proxy-operator --example judge
took built

if [ -n "$own_cluster" ]; then
    [ "$(id -u)" = 0 ] || fail 'bringing up a node needs root; run it as root, or set KUBECONFIG to use a cluster of yours'
    step 'Bring up a Kubernetes on this machine: API server, node, Squid image (the first time builds it: minutes)'
    eval "$(bash tests/lab/cluster.sh all "$work" "$index" 2>"$work/cluster.log" | grep '^\(kubeconfig\|server\|kubectl\)=')" ||
        { cat "$work/cluster.log"; fail 'the cluster did not come up'; }
    # shellcheck disable=SC2154  # kubeconfig, server and kubectl come from the eval
    export KUBECONFIG=$kubeconfig PATH="$(dirname "$kubectl"):$PATH"
    took "$server is up"

    step 'Start a site to crawl, with a certificate authority of its own'
    host=10.76.$index.254
    "$target/examples/judge" --listen "$host" --https-port 443 --http-port 80 --ca-out "$work/ca.pem" >"$work/judge.log" 2>&1 &
    judge_pid=$!
    for _ in $(seq 100); do grep -q ready "$work/judge.log" && break; sleep 0.1; done
    grep -q ready "$work/judge.log" || fail "the site did not start: $(cat "$work/judge.log")"
    url=https://$host/generate_204 page=https://$host/ip
    ca=(--probe-ca-file "$work/ca.pem") curl_ca=(--cacert "$work/ca.pem") image=lab.local/squid:1 squid=squid
    took "$page answers with the address that it is asked from"
else
    need kubectl
    step "Use the cluster of KUBECONFIG: $(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}' 2>/dev/null)"
    kubectl version >/dev/null || fail "no cluster answers (KUBECONFIG=$KUBECONFIG); unset KUBECONFIG for one that the demo brings up itself"
    took answers
    url=${DEMO_URL:-https://www.gstatic.com/generate_204} page=${DEMO_PAGE:-$url}
    ca=() curl_ca=() image=${DEMO_IMAGE:-ubuntu/squid:6.6-24.04_edge} squid=/usr/sbin/squid
fi

step 'Apply the custom resource definitions'
run kubectl apply -k crds
# A definition that is a moment old has no conditions yet, which `kubectl wait` takes for an error.
for _ in $(seq 50); do [ -z "$(kubectl get crd proxies.crawl.example.com -o jsonpath='{.status.conditions}')" ] || break; sleep 0.1; done
kubectl wait --for=condition=Established crd/proxies.crawl.example.com --timeout=30s >/dev/null
took

step 'Start the operator'
printf 'providers:\n  - name: kubernetes\n    type: kubernetes\n    kubernetes: {image: "%s"}\n' "$image" >"$work/providers.yaml"
"$target/proxy-operator" --providers-config "$work/providers.yaml" "${ca[@]}" --log-format text \
    --discovery-addr "$api" --metrics-bind-address "$metrics" --health-probe-bind-address "$health" \
    >"$work/operator.log" 2>&1 &
operator_pid=$!
for _ in $(seq 300); do
    curl -fsS "http://$health/readyz" >/dev/null 2>&1 && break
    kill -0 $operator_pid 2>/dev/null || fail 'the operator did not start'
    sleep 0.1
done
curl -fsS "http://$health/readyz" >/dev/null || fail 'the operator is not ready'
took "ready, its log is $work/operator.log"

step 'A proxy that somebody else runs already'
kubectl create namespace "$legacy" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
kubectl apply -n "$legacy" -f - >/dev/null <<Y
apiVersion: v1
kind: Pod
metadata: {name: squid}
spec:
  automountServiceAccountToken: false
  containers:
    - name: squid
      image: "$image"
      command: [/bin/sh, -c, 'printf "http_port 3128\nhttp_access allow all\npinger_enable off\nmax_filedescriptors 1024\npid_filename none\ncache_log /dev/null\naccess_log none\ncache deny all\n" >/tmp/squid.conf && exec $squid -N -f /tmp/squid.conf']
      readinessProbe: {tcpSocket: {port: 3128}, periodSeconds: 1}
Y
kubectl wait -n "$legacy" --for=condition=Ready pod/squid --timeout=180s >/dev/null
endpoint=$(kubectl get pod -n "$legacy" squid -o jsonpath='{.status.podIP}')
took "it listens on $endpoint:3128"

step 'Apply a fleet: two Squid pods for the operator to make, and the existing proxy'
kubectl create namespace "$fleet" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
for name in berlin paris; do
    cat <<Y
---
apiVersion: crawl.example.com/v1alpha1
kind: Proxy
metadata: {name: $name}
spec:
  mode: Managed
  provider: kubernetes
  attributes: {city: $name, kind: pod}
  healthCheck: {url: "$url"}
Y
done >"$work/fleet.yaml"
cat >>"$work/fleet.yaml" <<Y
---
apiVersion: crawl.example.com/v1alpha1
kind: Proxy
metadata: {name: legacy}
spec:
  mode: External
  endpoint: {host: "$endpoint"}
  attributes: {city: vienna, kind: existing}
  healthCheck: {url: "$url"}
Y
run kubectl apply -n "$fleet" -f "$work/fleet.yaml"
run kubectl wait -n "$fleet" --for=condition=Ready px --all --timeout=180s
run kubectl get px -n "$fleet" -o wide
took 'all proven by fetching through them,'

field() { python3 -c 'import json,sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1"; }
site=$(python3 -c 'import sys, urllib.parse; print(urllib.parse.urlsplit(sys.argv[1]).hostname)' "$page")

step "Lease a proxy for $site"
request='{"selector": {"city": "berlin"}, "target": "'$site'", "ttlSeconds": 60}'
printf "    \$ curl -d '%s' http://%s/v1/leases\n" "$request" "$api"
lease=$(curl -fsS -d "$request" "http://$api/v1/leases") || fail 'no lease'
printf '      %s\n' "$lease"
id=$(field leaseID <<<"$lease") ip=$(field proxy.ip <<<"$lease") port=$(field proxy.port <<<"$lease")
took leased

step 'Fetch a page through the leased proxy'
run curl -fsS "${curl_ca[@]}" -x "http://$ip:$port" -o "$work/page" -w 'status %{http_code} from %{url}\n' "$page"
if [ -n "$own_cluster" ]; then
    printf '      the site was asked from %s\n' "$(cat "$work/page")"
    [ "$(cat "$work/page")" = "$ip" ] || fail "the page was not fetched through $ip"
fi
took fetched

step "The site bans the proxy: report it, and ask again"
printf "    \$ curl -d '{\"result\": \"banned\"}' http://%s/v1/leases/%s/report\n" "$api" "$id"
code=$(curl -sS -o /dev/null -w '%{http_code}' -d '{"result": "banned"}' "http://$api/v1/leases/$id/report")
[ "$code" = 204 ] || fail "the report was answered $code"
printf "    \$ curl -d '%s' http://%s/v1/leases\n" "$request" "$api"
code=$(curl -sS -o "$work/denial" -w '%{http_code}' -d "$request" "http://$api/v1/leases")
printf '      %s %s\n' "$code" "$(cat "$work/denial")"
[ "$code" = 409 ] && [ "$(field inCooldown <"$work/denial")" = 1 ] || fail 'the banned proxy was leased again'
other=$(curl -fsS -d '{"selector": {"city": "berlin"}, "target": "another.example"}' "http://$api/v1/leases") || fail 'not even for another site'
printf '      for another site it is still good: %s\n' "$(field proxy.id <<<"$other")"
took 'cooling down,'

if [ -n "${KEEP:-}" ]; then
    printf '\n%sAll of it goes on running.%s To go on by hand:\n' "$bold" "$plain"
    cat <<Y
    export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$(command -v kubectl)"):\$PATH
    kubectl get px -n $fleet -w
    kubectl describe px -n $fleet berlin
    curl http://$api/v1/proxies
    curl http://$metrics/metrics
    tail -f $work/operator.log
To end it:
    kubectl delete px -n $fleet --all
    kill $operator_pid $judge_pid
Y
    if [ -n "$own_cluster" ]; then echo "    bash $PWD/tests/lab/cluster.sh down $work $index"
    else printf '    kubectl delete namespace %s %s\n    kubectl delete -k %s    # all Proxies of the cluster with it\n' "$fleet" "$legacy" "$PWD/crds"; fi
    disown -a
    exit 0
fi

step 'Delete the fleet'
run kubectl delete px -n "$fleet" --all --timeout=120s
pods=$(kubectl get pods -A -l proxy-operator-managed=true -o name)
[ -z "$pods" ] || fail "left behind: $pods"
left=$(curl -fsS "http://$api/v1/proxies" | field count)
[ "$left" = 0 ] || fail "the lease API still shows $left proxies"
took 'no pod and no proxy is left,'

step 'Stop the operator'
kill -TERM $operator_pid; code=0; wait $operator_pid || code=$?; operator_pid=''
[ $code = 0 ] || fail "the operator ended with exit code $code"
took 'stopped in order'
printf '\n%sThat was the main job.%s `KEEP=1 make demo` leaves it running for you.\n' "$bold" "$plain"
[ -n "$own_cluster" ] || echo "The definitions stay in your cluster: kubectl delete -k $PWD/crds (and all Proxies with them)."
