#!/bin/sh
# Runs a program that finds the network interfaces of uroce devices where kernel drivers show them:
# in /sys/class/infiniband/uroce_eth0/device/net/eth0 and so on. The program has a mount namespace
# of its own for that; who is not root, a user namespace as well.
set -eu

# In the namespace: /sys/class anew, with what was there, since directories cannot be made in sysfs.
if [ "${1:-}" = --inside ]; then
	shift
	cd /sys/class
	mount -t tmpfs -o mode=755 uroce /sys/class
	for class in *; do
		mkdir "/sys/class/$class"
		# The old directory is still the working directory.
		[ "$class" = infiniband ] || mount -c --bind "./$class" "/sys/class/$class"
	done
	mkdir -p /sys/class/infiniband
	[ ! -e infiniband ] || cp -RP infiniband/. /sys/class/infiniband
	for interface in net/*; do
		mkdir -p "/sys/class/infiniband/uroce_${interface#net/}/device/$interface"
	done
	cd "$OLDPWD"
	exec "$@"
fi

if [ $# -eq 0 ]; then
	printf 'usage: %s PROGRAM [ARGUMENT]...\n' "$0" >&2
	exit 2
fi
here=$(readlink -f "$0")
if [ "$(id -u)" -eq 0 ]; then
	exec unshare --mount "$here" --inside "$@"
fi
exec unshare --map-root-user --mount "$here" --inside "$@"
