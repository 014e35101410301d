#!/bin/bash
# Tests run.sh as its users see it. Prints a line for each check, and the sums.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$here/run.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The temporary files of run.sh go here, so that what it leaves is found.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR" "$scratch/host" "$scratch/a" "$scratch/b"

passed=0
failed=0

# ok WHAT CONDITION...
ok()
{
	local what=$1
	shift

	if "$@"; then
		printf 'ok %s\n' "$what"
		passed=$((passed + 1))
	else
		printf 'FAILED %s\n' "$what"
		failed=$((failed + 1))
	fi
}

# same WHAT EXPECTED ACTUAL
same()
{
	ok "$1" [ "$2" = "$3" ]
	[ "$2" = "$3" ] || printf '  expected: %q\n  but it is: %q\n' "$2" "$3"
}

# Runs run.sh; sets $status, and fills the files out and err.
try()
{
	status=0
	"$run" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
}

output()
{
	cat "$scratch/out"
}

errors()
{
	cat "$scratch/err"
}

contains()
{
	grep -qF -- "$2" "$scratch/$1"
}

lacks()
{
	! contains "$@"
}

# Processes that work in our folder for temporary files, or name it.
our_processes()
{
	local process

	for process in /proc/[0-9]*; do
		if [[ $(readlink "$process/cwd" 2>/dev/null || :) == "$TMPDIR"* ]] ||
			grep -qsF -- "$TMPDIR/" "$process/cmdline"; then
			tr '\0' ' ' <"$process/cmdline" 2>/dev/null || :
		fi
	done
}

nothing_is_left()
{
	[ -z "$(our_processes)" ] && [ -z "$(ls -A "$TMPDIR")" ]
}

test_usage()
{
	try --help
	same 'help: status' 0 $status
	ok 'help: text' contains out 'Usage: run.sh'
	try
	same 'no command: status' 2 $status
	try --no-such-option true
	same 'unknown option: status' 2 $status
	try --timeout soon true
	same 'wrong number: status' 2 $status
	try --two --a true
	same 'one of two commands: status' 2 $status
	try --icount --cpus 2 true
	same 'two processors that count instructions: status' 2 $status
	try --tap a/b true
	same 'no name of a device: status' 2 $status
}

# What the guest prints about itself, and exchanges with us meanwhile.
in_guest()
{
	cat <<'END'
printf '%s|' "$@" >"$OUT/arguments"
printf '%s\n' "$PWD" "$HOME" "$GIVEN" >"$OUT/environment"
cat /sys/class/infiniband/rxe0/ports/1/state /sys/class/infiniband/rxe0/ports/1/gids/[01] \
	/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1 >"$OUT/device"
[ -c /dev/infiniband/uverbs0 ] && [ -c /dev/infiniband/rdma_cm ] && echo >>"$OUT/device" nodes
echo to /dev/stdout >/dev/stdout
echo to stderr >&2
read -r line || echo 'no stdin'
echo changed >"$ROOT_FILE"
ip link add left type veth peer name right && echo veth >"$OUT/veth"
echo 'from the guest' >"$OUT/question"
until [ -s "$OUT/answer" ]; do sleep 0.1; done
cat "$OUT/answer"
exit 3
END
}

answer()
{
	until [ -s "$scratch/host/question" ]; do
		[ -d "$scratch/host" ] || return 0
		sleep 0.1
	done
	# By then, all that was printed before has arrived here.
	cp "$scratch/out" "$scratch/out_so_far"
	echo 'from the host' >"$scratch/host/answer.tmp"
	mv "$scratch/host/answer.tmp" "$scratch/host/answer"
}

test_one()
{
	local given=$'tab\tnewline\n\'"$x' answering
	# shellcheck disable=SC2016
	local -a arguments=('' ' two  words ' "it's \"quoted\"" $'a\nb' 'Grüße ✓'
		'$HOME `id` \n' '*' -e '')

	echo unchanged >"$scratch/root_file"
	answer &
	answering=$!
	cd "$scratch"
	try --out "$scratch/host" --env "GIVEN=$given" --env "OUT=$scratch/host" \
		--env "ROOT_FILE=$scratch/root_file" sh -c "$(in_guest)" sh "${arguments[@]}"
	cd - >/dev/null
	kill $answering 2>/dev/null || :
	wait $answering || :
	same 'status 3' 3 $status
	same 'stdout' $'to /dev/stdout\nno stdin\nfrom the host' "$(output)"
	same 'stderr' 'to stderr' "$(errors)"
	same 'output is live' $'to /dev/stdout\nno stdin' "$(cat "$scratch/out_so_far")"
	same 'exact arguments' "$(printf '%s|' "${arguments[@]}")" \
		"$(cat "$scratch/host/arguments")"
	same 'folder, HOME, --env' "$scratch"$'\n'"$HOME"$'\n'"$given" \
		"$(cat "$scratch/host/environment")"
	same 'rxe0 is active, its GIDs' '4: ACTIVE
fe80:0000:0000:0000:5054:00ff:fe77:0001
0000:0000:0000:0000:0000:ffff:0a4d:0001
eth0
nodes' "$(cat "$scratch/host/device")"
	same 'veth' veth "$(cat "$scratch/host/veth")"
	same 'the root file system here is unchanged' unchanged "$(cat "$scratch/root_file")"
	ok 'nothing is left' nothing_is_left
}

test_no_rxe()
{
	# shellcheck disable=SC2016
	try --no-rxe --cpus 1 --memory 1024 sh -c 'ls /sys/class/infiniband >&2; seq 1 1000000;
		sleep 1000 & kill -TERM $$'
	same 'killed by SIGTERM: status' 143 $status
	ok 'no device' lacks err rxe0
	ok 'much output arrives whole' cmp -s "$scratch/out" <(seq 1 1000000)
	ok 'nothing is left' nothing_is_left
}

# Prints how many milliseconds the same work takes, twice.
in_counting_guest()
{
	cat <<'END'
work()
{
	local begin i=0

	begin=$(date +%s%N)
	while [ $i -lt 200000 ]; do i=$((i + 1)); done
	echo $((($(date +%s%N) - begin) / 1000000))
}
work
work
END
}

# The load here, which is what else the machine does at the time, does not show.
test_icount()
{
	local -a times

	try --icount --no-rxe sh -c "$(in_counting_guest)"
	same 'icount: status' 0 $status
	mapfile -t times <"$scratch/out"
	ok 'icount: the same work takes the same time' \
		[ $((times[0] * 10)) -gt $((times[1] * 8)) -a $((times[0] * 8)) -lt $((times[1] * 10)) ]
	ok 'nothing is left' nothing_is_left
}

test_timeout()
{
	try --timeout 12 --no-rxe sh -c 'echo begun; sleep 1000'
	same 'out of time: status' 124 $status
	same 'out of time: output' begun "$(output)"
	ok 'out of time: message' contains err 'took longer than 12 seconds'
	ok 'nothing is left' nothing_is_left
}

test_no_start()
{
	try --memory 20 true
	same 'no start: status' 125 $status
	ok 'no start: message' contains err 'ended before the command did'
	ok 'nothing is left' nothing_is_left
}

# Signal $1 to run.sh while the command runs; $2 is the status for it.
test_signal()
{
	local runner

	: >"$scratch/out"
	# Bash ignores SIGINT in what it starts in the background.
	env --default-signal=INT "$run" --no-rxe sh -c 'echo begun; sleep 1000' \
		>"$scratch/out" 2>"$scratch/err" </dev/null &
	runner=$!
	until [ -s "$scratch/out" ] || ! kill -0 $runner 2>/dev/null; do
		sleep 0.1
	done
	kill -s "$1" $runner || :
	status=0
	wait $runner || status=$?
	same "$1: status" "$2" $status
	ok 'nothing is left' nothing_is_left
}

test_two()
{
	# shellcheck disable=SC2016
	try --two --out-a "$scratch/a" --out-b "$scratch/b" --pcap "$scratch/pcap" --a '
		hostname; echo error >&2
		busybox ping -q -c 2 host-b >/dev/null && echo b answers
		cat /sys/class/infiniband/rxe0/ports/1/state
		echo a >'"$scratch/a/file" --b '
		busybox ping -q -c 2 10.77.0.1 >/dev/null && echo a answers
		cat /sys/class/infiniband/rxe0/ports/1/gids/1
		echo b >'"$scratch/b/file"'; printf "no newline"'
	same 'two: status' 0 $status
	same 'two: output of a' $'a: host-a\na: b answers\na: 4: ACTIVE' "$(grep ^a "$scratch/out")"
	same 'two: output of b' 'b: a answers
b: 0000:0000:0000:0000:0000:ffff:0a4d:0002
b: no newline' "$(grep ^b "$scratch/out")"
	same 'two: stderr' 'a: error' "$(errors)"
	same 'two: folders' $'a\nb' "$(cat "$scratch/a/file" "$scratch/b/file")"
	same 'two: each its own folder' $'file\nfile' "$(ls "$scratch/a" && ls "$scratch/b")"
	ok 'two: packets' [ "$(stat -c %s "$scratch/pcap")" -gt 500 ]
	ok 'nothing is left' nothing_is_left
	try --two --no-rxe --a true --b 'exit 5'
	same 'two: status of b' 5 $status
	try --two --no-rxe --a 'exit 3' --b 'exit 5'
	same 'two: status of a before that of b' 3 $status
	ok 'nothing is left' nothing_is_left
}

# Programs here and in the machine reach each other, in a network that is nobody else's.
test_tap()
{
	local here_too

	if [ "$(id -u)" -ne 0 ] || [ ! -c /dev/net/tun ]; then
		printf 'skipped: a tap device needs root and /dev/net/tun\n'
		return 0
	fi
	here_too='ip tuntap add tap9 mode tap && ip address add 10.77.0.254/24 dev tap9 &&
		ip link set tap9 up && exec "$@"'
	run=unshare try --net sh -c "$here_too" sh "$here/run.sh" --no-rxe --tap tap9 \
		busybox ping -q -c 2 10.77.0.254
	same 'tap: status' 0 $status
	ok 'tap: it is answered' contains out '2 packets received'
	try --no-rxe --tap tap9 true
	same 'tap: no such device: status' 125 $status
	ok 'nothing is left' nothing_is_left
}

# The first time, it says that it downloads the kernel: not in the middle of a check.
"$here/prepare.sh" >/dev/null

test_usage
test_one
test_no_rxe
test_icount
test_timeout
test_no_start
test_signal TERM 143
test_signal INT 130
test_two
test_tap
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
