#!/bin/sh
# Runs a program that finds the network interfaces of uroce devices where kernel drivers show them:
# in /sys/class/infiniband/uroce_eth0/device/net/eth0 and so on. The program has a mount namespace
# of its own for that; who is not root, a user namespace as well.
set -eu

# In the namespace: /sys/class/infiniband anew, with what was there.
if [ "${1:-}" = --inside ]; then
	shift
	back=$PWD
	if [ -d /sys/class/infiniband ]; then
		cd /sys/class/infiniband
		mount -t tmpfs -o mode=755 uroce /sys/class/infiniband
		# The old directory is still the working directory. It has links, which stay as they are.
		cp -RP . /sys/class/infiniband
	else
		# Directories cannot be made in sysfs: so all of /sys/class.
		cd /sys/class
		mount -t tmpfs -o mode=755 uroce /sys/class
		mkdir /sys/class/infiniband
		for class in *; do
			mkdir "/sys/class/$class"
			mount -c --bind "./$class" "/sys/class/$class"
		done
	fi
	for interface in /sys/class/net/*; do
		mkdir -p "/sys/class/infiniband/uroce_${interface##*/}/device/net/${interface##*/}"
	done
	cd "$back"
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
