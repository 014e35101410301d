#!/bin/sh
# Runs a program that finds the network interfaces of uroce devices where kernel drivers show them:
# in /sys/class/infiniband/uroce_eth0/device/net/eth0 and so on. The program has a mount namespace
# of its own for that; who is not root, a user namespace as well.
set -eu
. "$(dirname "$(readlink -f "$0")")/namespace.sh"

# In the namespace: /sys/class/infiniband anew, with what was there.
show_interfaces()
{
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
}

in_namespace show_interfaces "$@"
