#!/usr/bin/env bash
# A worker in shell and curl: it enters, claims, works, reports, and beats meanwhile. Ctrl-C lets it leave.
#
#   HOLDFAST_API=http://127.0.0.1:8410 HOLDFAST_TOKEN=hf_… examples/worker.sh report.render
#
# Whatever the command in $HOLDFAST_RUN prints is the result; it finds the payload on its standard input. Exit code 75 (the
# usual "try again later") is tried again, any other but 0 is for good.
set -u
kinds=${1:?"which kinds, separated by commas"}
queue=${2:-default}
api=${HOLDFAST_API:-http://127.0.0.1:8410}
run=${HOLDFAST_RUN:-cat}
lease=${HOLDFAST_LEASE_SECONDS:-30}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# Asks until there is an answer that is not "later"; the answer is in $said, the status in $status.
ask() {
    while :; do
        status=$(curl -sS -o "$said" -w '%{http_code}' -m 30 -X POST "$api$1" \
            -H "Authorization: Bearer ${HOLDFAST_TOKEN:-}" -H 'Content-Type: application/json' -d "$2") || status=000
        case $status in 000 | 429 | 5??) sleep 1 ;; *) return ;; esac
    done
}

enter() {
    ask /api/workers "$(jq -nc --arg name "$(hostname)-$$" --arg kinds "$kinds" --arg queue "$queue" --argjson lease "$lease" \
        '{name: $name, kinds: ($kinds | split(",")), queues: [$queue], leaseSeconds: $lease}')"
    [ "$status" = 201 ] || { jq -r .detail "$said" >&2; exit 2; }
    worker=$(jq -r .worker "$said")
}

# A second process, because the first one waits for the work. It goes when the first one does.
beat() {
    local above=$1
    while sleep "$((lease / 3 + 1))" && kill -0 "$above" 2>/dev/null; do
        curl -sS -o /dev/null -m 10 -X POST "$api/api/workers/$worker/heartbeat" -H "Authorization: Bearer ${HOLDFAST_TOKEN:-}" || true
    done
}

leave() {
    kill "$beating" 2>/dev/null
    ask "/api/workers/$worker/leave" '{}'
    exit 0
}

enter
beat $$ &
beating=$!
trap leave INT TERM
while :; do
    # It holds nothing now: what stands in its name is from an answer that was lost, and goes back.
    ask "/api/workers/$worker/claim" '{"holding": [], "limit": 1}'
    if [ "$status" = 404 ]; then
        # It was silent for too long, and what it held is somebody else's.
        kill "$beating" 2>/dev/null
        enter
        beat $$ &
        beating=$!
        continue
    fi
    { read -r id && read -r token && read -r payload; } < <(jq -r '.tasks[] | .id, .leaseToken, (.payload | tojson)' "$said") ||
        { sleep 1; continue; }
    result=$($run <<<"$payload")
    code=$?
    case $code in
        0) outcome='{outcome: "complete", result: (fromjson? // .)}' ;;
        75) outcome='{outcome: "retry", reason: "the command said: later"}' ;;
        *) outcome='{outcome: "fail", reason: "the command ended with \($code)"}' ;;
    esac
    # 409 says that it came too late: nothing of it was taken, and there is nothing left to do.
    ask "/api/tasks/$id/report" "$(jq -Rsc --arg worker "$worker" --argjson token "$token" --arg code "$code" \
        "$outcome + {worker: \$worker, leaseToken: \$token}" <<<"$result")"
done
