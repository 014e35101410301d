#!/bin/sh
# Runs a program that finds a device file for each uroce device: /dev/infiniband/uroce_eth0 and so
# on, which stand for /dev/null. UCX looks for them before it opens a device. The program has a mount
# namespace of its own for that; who is not root, a user namespace as well.
set -eu
. "$(dirname "$(readlink -f "$0")")/namespace.sh"

# In the namespace: /dev/infiniband, or else /dev, anew, with what was there.
show_devices()
{
	folder=/dev/infiniband
	[ -d $folder ] || folder=/dev
	cd $folder
	mount -t tmpfs -o mode=755 uroce $folder
	# The old directory is still the working directory.
	for entry in *; do
		if [ -L "$entry" ]; then
			cp -P "$entry" "$folder/$entry"
		elif [ -d "$entry" ]; then
			mkdir "$folder/$entry"
			mount -c --rbind "./$entry" "$folder/$entry"
		elif [ -e "$entry" ]; then
			: >"$folder/$entry"
			mount -c --bind "./$entry" "$folder/$entry"
		fi
	done
	mkdir -p /dev/infiniband
	for interface in /sys/class/net/*; do
		: >"/dev/infiniband/uroce_${interface##*/}"
		mount -c --bind /dev/null "/dev/infiniband/uroce_${interface##*/}"
	done
}

in_namespace show_devices "$@"
