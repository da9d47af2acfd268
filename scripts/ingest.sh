#!/usr/bin/env bash
# Puts files and folders into a collection through the HTTP API: an example that needs nothing but curl.
#
#   scripts/ingest.sh COLLECTION PATH…      TAILRACE_URL, TAILRACE_KEY: the server and a key for it
#
# Each file is sent under its folder's name and its path below it, and waited for. A file whose bytes are there already
# costs nothing, so running it again goes on where it was. Exit code: 0 done, 1 some failed, 2 wrong use.
set -euo pipefail

if (($# < 2)); then
    echo "usage: $0 COLLECTION PATH…" >&2
    exit 2
fi
url=${TAILRACE_URL:-http://127.0.0.1:8787}
collection=$1
shift
auth=()
[[ -n ${TAILRACE_KEY:-} ]] && auth=(-H "authorization: Bearer $TAILRACE_KEY")
failed=0

# curl reads `"` and `\` in a form's names as marks of its own.
quoted() {
    local text=${1//\\/\\\\}
    printf '%s' "${text//\"/\\\"}"
}

send() {
    local path=$1 uri=$2 answer status
    answer=$(curl -sS -w '\n%{http_code}' --retry 5 --retry-connrefused "${auth[@]}" \
        -F "file=@\"$(quoted "$path")\";filename=\"$(quoted "$uri")\"" \
        "$url/api/v1/collections/$collection/documents?wait=true") || answer=$'\n000'
    status=${answer##*$'\n'}
    case $status in
    2*) if [[ $answer == *'"unchanged":true'* ]]; then echo "unchanged $uri"; else echo "indexed $uri"; fi ;;
    *)
        echo "failed $uri: $status ${answer%$'\n'*}" >&2
        failed=1
        ;;
    esac
}

for root in "$@"; do
    if [[ -f $root ]]; then
        uri=${root#./}
        if [[ $uri == /* || $uri == *..* ]]; then
            uri=$(basename "$(cd "$(dirname "$root")" && pwd)")/$(basename "$root")
        fi
        send "$root" "$uri"
    elif [[ -d $root ]]; then
        name=$(basename "$(cd "$root" && pwd)")
        while IFS= read -r -d '' path; do
            send "$root/$path" "$name/${path#./}"
        done < <(cd "$root" && find . -type f -not -path '*/.*' -print0 | sort -z)
    else
        echo "there is no $root" >&2
        exit 2
    fi
done
exit "$failed"
