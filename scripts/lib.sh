# shellcheck shell=bash disable=SC2034 # sourced; its variables are for those who source it
# What demo.sh, check.sh and the test harness share. Expects `set -euo pipefail`.

BUILD_PACKAGES=(gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev libcmocka-dev
	libdeflate-dev libisal-dev libjansson-dev)
VM_PACKAGES=(qemu-system-x86 busybox-static cpio kmod iproute2 util-linux xz-utils)

# Says what happens now, in one line.
step()
{
	printf '== %s\n' "$*" >&2
}

# Ends the script with a reason.
fail()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Runs a command with its output in the file $1. If it fails, shows that and ends the script.
run_logged()
{
	local log=$1 status=0
	shift

	"$@" >"$log" 2>&1 || status=$?
	[ $status -ne 0 ] || return 0
	cat "$log" >&2
	rm -f "$log"
	fail "this failed with status $status: $*"
}

# Runs a command; shows its output only if it fails, and then ends the script.
quietly()
{
	local log

	log=$(mktemp)
	run_logged "$log" "$@"
	rm -f "$log"
}

# Runs a command as root: as it is for root, through sudo for others.
as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "root is needed for: $* (run this as root, or install sudo)"
	fi
}

# Installs the named Debian packages that are missing; does nothing, at once, when none is.
install_packages()
{
	local package missing=()

	command -v dpkg-query >/dev/null || fail "this is no Debian, so its packages cannot be installed"
	for package in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	step "installing ${missing[*]}"
	quietly as_root apt-get update -q
	quietly as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Builds in the folder $1, set up with the other arguments.
build_in()
{
	local folder=$1
	shift

	if [ ! -f "$folder/build.ninja" ]; then
		quietly meson setup "$folder" "$@"
	elif [ $# -gt 0 ]; then
		quietly meson configure "$folder" "$@"
	fi
	quietly ninja -C "$folder"
}
