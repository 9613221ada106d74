# Sourced by the demos: the words that they tell their steps in, and the steps that all have.
# shellcheck shell=bash disable=SC2154,SC2034  # what the demo sets, and what it is given

bold='' plain=''; [ ! -t 1 ] || { bold=$'\e[1m' plain=$'\e[0m'; }
number=0 begun=$(date +%s%N)
step() { number=$((number + 1)); begun=$(date +%s%N); printf '\n%s%2d. %s%s\n' "$bold" "$number" "$*" "$plain"; }
took() { awk -v ns=$(($(date +%s%N) - begun)) -v done="${1:-done}" 'BEGIN {printf "    %s in %.1f s\n", done, ns / 1e9}'; }
run() { printf '    $ %s\n' "$*"; "$@" 2>&1 | sed 's/^/      /'; }
fail() { printf '\ndemo: %s\n' "$*" >&2; [ -n "$operator_pid" ] && [ -f "$work/operator.log" ] && { echo "the operator's last words:"; tail -n 20 "$work/operator.log"; } >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "needs $1${2:+: $2}"; }
field() { python3 -c 'import json,sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1"; }

addresses() {  # sets api, metrics, health and admin
    local port=${DEMO_PORT:-18090} address
    api=127.0.0.1:$port metrics=127.0.0.1:$((port + 1)) health=127.0.0.1:$((port + 2)) admin=127.0.0.1:$((port + 4))
    # An operator of an earlier KEEP=1 would answer in place of this one.
    for address in "$api" "$metrics" "$health" "$admin"; do
        is_free "$address"
    done
}
is_free() { if answers "$1"; then fail "$1 is taken, by an earlier demo perhaps: end that, or set DEMO_PORT and LAB_INDEX"; fi; }
answers() { timeout 2 bash -c "exec 3<>/dev/tcp/${1/://}" 2>/dev/null; }

no_cluster() {  # an earlier one would be taken down for this one
    answers "10.76.$index.1:443" || return 0
    fail "a Kubernetes of LAB_INDEX $index is up, of an earlier demo perhaps. End it:
    bash $PWD/tests/lab/cluster.sh down $work $index
or set LAB_INDEX (1 to 199) and DEMO_PORT for another one beside it"
}

begins() {  # from here on there is something to clean up; before, nothing that is there may be touched
    trap leave EXIT
    trap 'exit 130' INT TERM
}

build() {  # with what else there is to build
    step 'Build the operator (the first time compiles it all: minutes)'
    cargo build --quiet --bin proxy-operator --example judge "$@"
    took built
}

cluster() {  # up|all  sets KUBECONFIG
    eval "$(bash tests/lab/cluster.sh "$1" "$work" "$index" 2>"$work/cluster.log" | grep '^\(kubeconfig\|server\|kubectl\)=')" ||
        { cat "$work/cluster.log"; fail 'the cluster did not come up'; }
    # shellcheck disable=SC2154  # kubeconfig, server and kubectl come from the eval
    export KUBECONFIG=$kubeconfig PATH="$(dirname "$kubectl"):$PATH"
    took "$server is up"
}

site() {  # sets judge_pid, url, page, ca and curl_ca
    step 'Start a site to crawl, with a certificate authority of its own'
    local host=10.76.$index.254
    "$target/examples/judge" --listen "$host" --https-port 443 --http-port 80 --ca-out "$work/ca.pem" >"$work/judge.log" 2>&1 &
    judge_pid=$!
    for _ in $(seq 100); do grep -q ready "$work/judge.log" && break; sleep 0.1; done
    grep -q ready "$work/judge.log" || fail "the site did not start: $(cat "$work/judge.log")"
    url=https://$host/generate_204 page=https://$host/ip
    ca=(--probe-ca-file "$work/ca.pem") curl_ca=(--cacert "$work/ca.pem")
    took "$page answers with the address that it is asked from"
}

definitions() {
    step 'Apply the custom resource definitions'
    run kubectl apply -k crds
    # A definition that is a moment old has no conditions yet, which `kubectl wait` takes for an error.
    for _ in $(seq 50); do [ -z "$(kubectl get crd proxies.crawl.example.com -o jsonpath='{.status.conditions}')" ] || break; sleep 0.1; done
    kubectl wait --for=condition=Established crd/proxies.crawl.example.com --timeout=30s >/dev/null
    took
}

operator() {  # with $work/providers.yaml; sets operator_pid
    "$target/proxy-operator" --providers-config "$work/providers.yaml" "${ca[@]}" --log-format text \
        --discovery-addr "$api" --metrics-bind-address "$metrics" --health-probe-bind-address "$health" \
        --admin-addr "$admin" --enable-chaos >"$work/operator.log" 2>&1 &
    operator_pid=$!
    for _ in $(seq 300); do
        curl -fsS "http://$health/readyz" >/dev/null 2>&1 && break
        kill -0 $operator_pid 2>/dev/null || fail 'the operator did not start'
        sleep 0.1
    done
    curl -fsS "http://$health/readyz" >/dev/null || fail 'the operator is not ready'
    took "ready, its log is $work/operator.log"
}

lease() {  # REQUEST  leases, and sets id, ip and port
    local granted
    printf "    \$ curl -d '%s' http://%s/v1/leases\n" "$1" "$api"
    granted=$(curl -fsS -d "$1" "http://$api/v1/leases") || fail 'no lease'
    printf '      %s\n' "$granted"
    id=$(field leaseID <<<"$granted") ip=$(field proxy.ip <<<"$granted") port=$(field proxy.port <<<"$granted")
    took leased
}

fetch() {  # fetches the page through the leased proxy; the lab's site says whom it saw
    step 'Fetch a page through the leased proxy'
    run curl -fsS "${curl_ca[@]}" -x "http://$ip:$port" -o "$work/page" -w 'status %{http_code} from %{url}\n' "$page"
    if [ -z "${1:-}" ]; then
        printf '      the site was asked from %s\n' "$(cat "$work/page")"
        [ "$(cat "$work/page")" = "$ip" ] || fail "the page was not fetched through $ip"
    fi
    took fetched
}

proxy_operator() {  # as run, with the name that users have it under
    printf '    $ proxy-operator %s\n' "$*"
    "$target/proxy-operator" "$@" 2>&1 | sed 's/^/      /'
}

egress() {  # what the page saw through every proxy
    step 'From where does each proxy reach the web?'
    export PROXY_OPERATOR_API_URL=http://$api PROXY_OPERATOR_ADMIN_ADDR=http://$admin
    [ ${#ca[@]} = 0 ] || export PROXY_OPERATOR_CA_FILE=${ca[1]}
    proxy_operator egress-ips --echo-url "$1" || fail 'not every proxy egresses'
    took asked
}

kill_and_recover() {  # ACTOR…  the lease of $id has to outlive all of them
    local actor
    step 'The actors behind it; kill some, the ledger of all leases among them'
    proxy_operator leases renew "$id" --ttl 10m || fail 'the lease has ended'
    proxy_operator actors
    for actor in "$@"; do proxy_operator actors kill "$actor" || fail "$actor did not come back"; done
    proxy_operator actors | awk 'NR < 3 || /killed/'
    proxy_operator leases get "$id" || fail 'the lease did not outlive the ledger'
    took 'all are back, and the lease is still held,'
}

stop_operator() {
    step 'Stop the operator'
    kill -TERM "$operator_pid"; local code=0; wait "$operator_pid" || code=$?; operator_pid=''
    [ $code = 0 ] || fail "the operator ended with exit code $code"
    took 'stopped in order'
}
