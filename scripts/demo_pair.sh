#!/bin/bash
# Runs a pair of programs (or all) on this machine's RDMA device as in two terminals, and shows what both
# say.
#
# Usage: demo_pair.sh PAIR TEXT, or --check PAIR: only whether there is such a pair
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

PAIRS=(read write write_immediate send send_immediate sync_event multi_conn atomic)

# The two programs of the pair $1, the one that waits for the other first, and what they are given to carry
# the text $2. The text stands behind the label, where the pair carries one.
describe()
{
	first=rdma_$1_responder second=rdma_$1_requester
	first_arguments=() second_arguments=() label=
	case $1 in
	read)
		first_arguments=(-r "$2") label="Read from the responder"
		;;
	write | write_immediate)
		second_arguments=(-w "$2") label="Written by the requester"
		;;
	send)
		first=rdma_receive second=rdma_send
		second_arguments=(-s "$2") label=Received
		;;
	send_immediate)
		first=rdma_receive_immediate second=rdma_send_immediate
		second_arguments=(-s "$2") label=Received
		;;
	multi_conn)
		first=rdma_multi_conn_receive second=rdma_multi_conn_send
		second_arguments=(-s "$2") label="Received on connection 1"
		;;
	esac
}

is_pair()
{
	local pair

	for pair in "${PAIRS[@]}" all; do
		[ "$pair" != "$1" ] || return 0
	done
	return 1
}

# Shows what a program says, marked as terminal $1's, and keeps it in the file $2.
show()
{
	sed -u "s/^/terminal $1 | /" | tee "$2"
}

# The first program ends when its standard input does, if it does not end by itself.
run_pair()
{
	local pair=$1 text=$2

	describe "$pair" "$text"
	step "$first in terminal 1, $second in terminal 2"
	mkfifo "$folder/terminal"
	"build/$first/$first" "${first_arguments[@]}" <"$folder/terminal" > >(show 1 "$folder/first") 2>&1 &
	running=$!
	exec 3>"$folder/terminal"
	"build/$second/$second" "${second_arguments[@]}" 2>&1 3>&- | show 2 "$folder/second"
	exec 3>&-
	wait "$running"
	running=
	wait # for what shows it
	rm "$folder/terminal"
	[ -z "$label" ] || grep -qhF "| $label: $text" "$folder/first" "$folder/second" ||
		fail "\"$label: $text\" was not printed"
}

clean_up()
{
	[ -z "$running" ] || kill "$running" || true
	rm -rf "$folder"
}

if [ "$1" = --check ]; then
	is_pair "$2" || fail "\"$2\" is no pair; there are: ${PAIRS[*]}; or all of them: all"
	exit 0
fi

folder=$(mktemp -d)
running=
export XDG_RUNTIME_DIR=$folder
trap clean_up EXIT
if [ "$1" = all ]; then
	for pair in "${PAIRS[@]}"; do
		run_pair "$pair" "$2"
	done
else
	run_pair "$1" "$2"
fi
