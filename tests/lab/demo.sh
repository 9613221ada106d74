#!/usr/bin/env bash
# The main job, shown step by step: a fleet by kubectl, proven, leased over HTTP, and gone again.
#   tests/lab/demo.sh            brings a Kubernetes up on this machine (root), and takes it down again
#   KEEP=1 tests/lab/demo.sh     leaves all of it running and says how to go on by hand
#   KVM=1 tests/lab/demo.sh      with a VM on a hypervisor instead of pods, see demo-kvm.sh
#   GCP=local tests/lab/demo.sh  with a VM of a stand-in for Compute Engine, see demo-gcp.sh
#   KUBECONFIG=… tests/lab/demo.sh   uses that cluster; its pods must be reachable from this machine
# With KUBECONFIG the proxies fetch $DEMO_URL (default https://www.gstatic.com/generate_204), the crawler
# $DEMO_PAGE (the same), and the pods are of $DEMO_IMAGE; the definitions stay in the cluster.
# Two at a time need a LAB_INDEX (1 to 199) and a DEMO_PORT each.
# The operator's addresses are 127.0.0.1:$DEMO_PORT (18090) for the lease API, and the next ports. With KUBECONFIG
# $DEMO_ECHO is the page that says from where it is asked (none: that step is left out).
set -euo pipefail
[ -z "${KVM:-}" ] || exec bash "$(dirname "$(realpath "$0")")/demo-kvm.sh"
[ -z "${GCP:-}" ] || exec bash "$(dirname "$(realpath "$0")")/demo-gcp.sh"
cd "$(dirname "$(realpath "$0")")/../.."

index=${LAB_INDEX:-199}
work=${TMPDIR:-/tmp}/egress-proxies-demo${LAB_INDEX:+-$LAB_INDEX}
target=${CARGO_TARGET_DIR:-target}/debug
own_cluster=1 foreign=''; [ -z "${KUBECONFIG:-}" ] || { own_cluster='' foreign=1; }
fleet=demo-fleet        # the Proxies, and their pods
legacy=demo-legacy      # a proxy that somebody else runs
operator_pid='' judge_pid=''

# shellcheck source=tests/lab/demo-words.sh
. tests/lab/demo-words.sh

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
need cargo 'https://rustup.rs'
if [ -n "$own_cluster" ]; then bash tests/lab/needs.sh; else for program in cc curl python3; do need "$program"; done; fi
addresses
if [ -n "$own_cluster" ]; then no_cluster; begins
else
    need kubectl
    for namespace in "$fleet" "$legacy"; do
        [ -z "$(kubectl get namespace "$namespace" --ignore-not-found -o name)" ] || fail "the cluster has a namespace $namespace, of an earlier demo perhaps: delete it (its Proxies first), for this demo makes it and deletes it in the end"
    done
fi
mkdir -p "$work"; rm -f "$work/operator.log"

build

if [ -n "$own_cluster" ]; then
    [ "$(id -u)" = 0 ] || fail 'bringing up a node needs root; run it as root, or set KUBECONFIG to use a cluster of yours'
    step 'Bring up a Kubernetes on this machine: API server, node, Squid image (the first time builds it: minutes)'
    cluster all
    site
    image=lab.local/squid:1 squid=squid echo_page=$page
else
    step "Use the cluster of KUBECONFIG: $(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}' 2>/dev/null)"
    kubectl version >/dev/null || fail "no cluster answers (KUBECONFIG=$KUBECONFIG); unset KUBECONFIG for one that the demo brings up itself"
    took answers
    begins
    url=${DEMO_URL:-https://www.gstatic.com/generate_204} page=${DEMO_PAGE:-$url}
    echo_page=${DEMO_ECHO:-}
    ca=() curl_ca=() image=${DEMO_IMAGE:-ubuntu/squid:6.6-24.04_edge} squid=/usr/sbin/squid
fi

definitions

step 'Start the operator'
printf 'providers:\n  - name: kubernetes\n    type: kubernetes\n    kubernetes: {image: "%s"}\n' "$image" >"$work/providers.yaml"
operator

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

site=$(python3 -c 'import sys, urllib.parse; print(urllib.parse.urlsplit(sys.argv[1]).hostname)' "$page")

step "Lease a proxy for $site"
request='{"selector": {"city": "berlin"}, "target": "'$site'", "ttlSeconds": 60}'
lease "$request"

fetch "$foreign"

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

if [ -n "$echo_page" ]; then egress "$echo_page"
else export PROXY_OPERATOR_API_URL=http://$api PROXY_OPERATOR_ADMIN_ADDR=http://$admin; fi
kill_and_recover leases "proxy/$fleet/berlin" provider/kubernetes

if [ -n "${KEEP:-}" ]; then
    printf '\n%sAll of it goes on running.%s To go on by hand:\n' "$bold" "$plain"
    cat <<Y
    export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$(command -v kubectl)"):\$PATH
    kubectl get px -n $fleet -w
    kubectl describe px -n $fleet berlin
    # A Proxy of your own${own_cluster:+ (this lab reaches no other site than this one)}:
    sed '1d; /^---\$/,\$d; s/berlin/rome/g' $work/fleet.yaml | kubectl apply -n $fleet -f -
    curl http://$api/v1/proxies
    curl http://$metrics/metrics
    $target/proxy-operator actors --watch --admin-addr $admin
    $target/proxy-operator egress-ips --api-url $api --echo-url ${echo_page:-URL} ${ca[1]:+--ca-file ${ca[1]}}
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

stop_operator
printf '\n%sThat was the main job.%s `KEEP=1 make demo` leaves it running for you.\n' "$bold" "$plain"
[ -n "$own_cluster" ] || echo "The definitions stay in your cluster: kubectl delete -k $PWD/crds (and all Proxies with them)."
