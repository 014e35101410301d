#!/bin/bash
# One command on a fresh Debian machine: installs what is needed, builds and runs every test: the style, the unit tests
# in a plain and a sanitizer build, a fuzzer, and the programs on a real kernel RDMA device in a virtual machine.
# Ends at the first failure. Root or sudo is needed to install packages, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh

CHECK_PACKAGES=(clang clang-format libclang-rt-14-dev python3 shellcheck valgrind)
FUZZ_SECONDS=60

export PYTHONDONTWRITEBYTECODE=1

# Runs a test program in the virtual machine, on the programs of a build folder.
in_guest()
{
	local build=$1
	shift
	tests/rxe_vm/run.sh --timeout 900 --env PYTHONDONTWRITEBYTECODE=1 --env "BUILD=$PWD/$build" "$@"
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

fuzz()
{
	local corpus

	corpus=$(mktemp -d)
	quietly build-fuzz/tests/fuzz/fuzz_descriptor -max_total_time="$FUZZ_SECONDS" -max_len=512 \
		-artifact_prefix="$corpus/" "$corpus" tests/fuzz/corpus/descriptor
	rm -rf "$corpus"
}

install_packages "${BUILD_PACKAGES[@]}" "${VM_PACKAGES[@]}" "${CHECK_PACKAGES[@]}"

step "style: clang-format, shellcheck"
check_style

step "plain build and unit tests"
build_in build -Dwerror=true
run_tests meson test -C build --suite unit --verbose

step "build with address and undefined-behaviour sanitizers, and unit tests"
build_in build-asan -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false
run_tests meson test -C build-asan --suite unit --verbose

step "fuzzing the descriptor parser for $FUZZ_SECONDS s"
CC=clang build_in build-fuzz -Dfuzz=true -Dtests=true -Dbench=false
fuzz

step "programs without a device"
run_tests python3 tests/pairs/test_no_device.py

step "the virtual machine itself"
run_tests tests/rxe_vm/selftest.sh

step "the read pair on rxe in the virtual machine"
run_tests in_guest build /usr/bin/python3 tests/pairs/test_read.py

step "the same with sanitizers"
run_tests in_guest build-asan /usr/bin/python3 tests/pairs/test_read.py

step "every operation of the layer on rxe, plain and with sanitizers"
run_tests in_guest build sh -c 'build/tests/device/test_operations && build-asan/tests/device/test_operations'

step "the benchmark runs"
quietly in_guest build build/bench/layer_overhead/layer_overhead --rounds 2 --iterations 200

step "the read pair between two virtual machines"
run_tests python3 tests/pairs/test_two_hosts.py

step "all tests passed"
