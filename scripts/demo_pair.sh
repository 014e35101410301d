#!/bin/bash
# Runs the RDMA read pair on this machine's RDMA device as in two terminals, and shows what both say,
# marked with their names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

TEXT=$1
RESPONDER=build/rdma_read_responder/rdma_read_responder
REQUESTER=build/rdma_read_requester/rdma_read_requester

folder=$(mktemp -d)
export XDG_RUNTIME_DIR=$folder
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/terminal"

# The responder ends when its standard input does.
"$RESPONDER" -r "$TEXT" <"$folder/terminal" > >(sed -u 's/^/responder | /') 2>&1 &
responder=$!
exec 3>"$folder/terminal"

"$REQUESTER" 2>&1 3>&- | sed -u 's/^/requester | /' | tee "$folder/output"
exec 3>&-
wait "$responder"

read=$(sed -n 's/^requester | Read from the responder: //p' "$folder/output")
[ "$read" = "$TEXT" ] || fail "the requester read \"$read\", but the responder has \"$TEXT\""
device=$(sed -n 's/^requester | rdma_read_requester: device //p' "$folder/output")
printf '\nthe responder served:                 %s\n' "$TEXT"
printf 'the requester read, through %-8s  %s\n' "$device:" "$read"
