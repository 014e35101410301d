#!/bin/bash
# One command on a fresh Debian machine: installs what is needed, builds and runs every test: the style, the unit tests
# in a plain and a sanitizer build, a fuzzer, and the programs on a real kernel RDMA device in a virtual machine.
# Ends at the first failure. Root or sudo is needed to install packages, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh

CHECK_PACKAGES=(clang clang-format libclang-rt-14-dev python3 shellcheck valgrind)
# Other people's programs that run on uroce, and what looks at its packets.
PROGRAM_PACKAGES=(ibverbs-utils iperf3 iproute2 libfabric-bin perftest python3-pyverbs rdma-core rdmacm-utils
	tshark ucx-utils)
FUZZ_SECONDS=10
# Of tests/pairs, those that run on uroce here, those that do it with sanitizers, too, and those that run in the
# virtual machine on the kernel's device. It is slow, and what test_read does there, test_pairs does, too.
PAIR_TESTS=(test_read test_pairs test_bad_peers test_cm test_cm_sync)
SANITIZED_PAIR_TESTS=(test_pairs test_bad_peers test_cm)
GUEST_TESTS=(test_pairs test_bad_peers test_cm test_cm_sync)

export PYTHONDONTWRITEBYTECODE=1

# Says what happens now, and when: the whole has to stay short.
step()
{
	printf '== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2
}

# Runs a test program in the virtual machine, on the programs of a build folder.
in_guest()
{
	local build=$1
	shift
	tests/rxe_vm/run.sh --timeout 1200 --env PYTHONDONTWRITEBYTECODE=1 --env "BUILD=$PWD/$build" "$@"
}

# Runs tests; shows their runners' closing lines, or everything if one fails.
run_tests()
{
	local log

	log=$(mktemp)
	run_logged "$log" "$@"
	grep -E '^\[  PASSED  \]|^[0-9]+ passed' "$log"
	rm -f "$log"
}

check_style()
{
	local sources scripts

	mapfile -t sources < <(find . -path './build*' -prune -o -name '*.[ch]' -print)
	mapfile -t scripts < <(find . -path './build*' -prune -o -name '*.sh' -print)
	clang-format --dry-run --Werror "${sources[@]}"
	shellcheck -x -P SCRIPTDIR "${scripts[@]}" .ci/run
}

# Fuzzes the target $1 from its corpus, with inputs of up to $2 bytes.
fuzz()
{
	local corpus

	corpus=$(mktemp -d)
	quietly "build-fuzz/tests/fuzz/fuzz_$1" -max_total_time="$FUZZ_SECONDS" -max_len="$2" \
		-artifact_prefix="$corpus/" "$corpus" "tests/fuzz/corpus/$1"
	rm -rf "$corpus"
}

# Runs a test program on uroce, with the programs of a build folder.
on_uroce()
{
	local build=$1
	shift
	env BUILD="$PWD/$build" "$@"
}

# Runs commands, each one argument, at the same time: those that wait most of theirs, or keep one processor busy.
at_once()
{
	local command pid pids=() status=0

	for command in "$@"; do
		# shellcheck disable=SC2086 # it is split on purpose
		$command &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	return $status
}

install_packages "${BUILD_PACKAGES[@]}" "${VM_PACKAGES[@]}" "${CHECK_PACKAGES[@]}" "${PROGRAM_PACKAGES[@]}"

step "style: clang-format, shellcheck"
check_style

step "plain build and unit tests"
build_in build -Dwerror=true
run_tests meson test -C build --suite unit --verbose

step "build with address and undefined-behaviour sanitizers, and unit tests"
build_in build-asan -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false -Dbench=false
run_tests meson test -C build-asan --suite unit --verbose

step "fuzzing parsers (descriptors, packets, connection manager) and state machines, each for $FUZZ_SECONDS s"
CC=clang build_in build-fuzz -Dfuzz=true -Dtests=true -Dbench=false
at_once "fuzz descriptor 512" "fuzz packet 512"
at_once "fuzz reliable 2048" "fuzz unreliable 2048" "fuzz extended 2048"
at_once "fuzz cm 512" "fuzz cm_endpoint 512"

step "programs without a device"
run_tests python3 tests/pairs/test_no_device.py

step "uroce: what it exports, uroce-run, other people's programs, and the pairs on bad networks"
run_tests on_uroce build python3 tests/uroce/test_exports.py
run_tests on_uroce build python3 tests/uroce/test_uroce_run.py
run_tests on_uroce build python3 tests/uroce/test_programs.py
run_tests on_uroce build python3 tests/uroce/test_pairs.py
run_tests on_uroce build python3 tests/uroce/test_cm_programs.py
at_once "run_tests on_uroce build python3 tests/uroce/test_verbs_matrix.py" \
	"run_tests on_uroce build python3 tests/uroce/test_cm_hostile.py" \
	"run_tests on_uroce build python3 tests/uroce/test_cm_killed.py" \
	"run_tests on_uroce build python3 tests/uroce/test_multicast.py"

step "uroce: every operation of the layer, and all pairs, plain and with sanitizers"
run_tests build/tests/device/test_operations
for test in "${PAIR_TESTS[@]}"; do
	run_tests on_uroce build python3 "tests/pairs/$test.py"
done
run_tests build-asan/tests/device/test_operations
for test in "${SANITIZED_PAIR_TESTS[@]}"; do
	run_tests on_uroce build-asan python3 "tests/pairs/$test.py"
done
run_tests on_uroce build python3 tests/pairs/test_matrix.py

step "uroce with the thread sanitizer: its unit tests, sleeping programs, eight processes"
build_in build-tsan -Dwerror=true -Db_sanitize=thread -Db_lundef=false -Dbench=false
run_tests meson test -C build-tsan --suite uroce --verbose
run_tests on_uroce build-tsan env UROCE_TEST_PRELOAD="$(realpath "$(gcc -print-file-name=libtsan.so)")" \
	python3 tests/uroce/test_programs.py Loopback ManyProcesses

step "the virtual machine itself"
run_tests tests/rxe_vm/selftest.sh

step "on rxe in the virtual machine: all pairs, and every operation of the layer, plain and with sanitizers"
run_tests in_guest build sh -c "for test in ${GUEST_TESTS[*]}; do
		/usr/bin/python3 tests/pairs/\$test.py || exit
	done
	build/tests/device/test_operations && build-asan/tests/device/test_operations"

# Those on rxe take five minutes more: test_peers.py Peers.test_rxe.
step "other people's programs on uroce, as docs/compatibility.md says"
run_tests on_uroce build python3 tests/peers/test_peers.py Peers.test_uroce

step "the benchmarks run"
quietly in_guest build sh -c 'build/bench/layer_overhead/layer_overhead --rounds 2 --iterations 200 &&
	build/bench/perftest/bench_perftest --rounds 1 --operation send --kind latency --wait polling'
quietly build/bench/device/bench_device --rounds 1 --iterations 200
quietly build/bench/scale/bench_scale --rounds 1 --qps 100 --mrs 1000 --iterations 1000
quietly build/bench/connections/bench_connections --rounds 1

step "a short soak: all that arrives is right, and memory, descriptors and threads stay flat"
quietly build/bench/soak/bench_soak --operations 1000000
quietly build/bench/soak/bench_soak --connections 500

step "all pairs between two virtual machines, and between one and uroce"
run_tests python3 tests/pairs/test_two_hosts.py
run_tests on_uroce build python3 tests/interop/test_kernel.py

step "all tests passed"
