#!/bin/bash
# Fetches the kernel for the guest and makes the initramfs, both kept in a cache folder. Prints
# three lines: the kernel image, the initramfs, the kernel's modules folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/lib.sh
. "$here/../../scripts/lib.sh"

# What the guest loads at boot, by phase, and what it may load later (modprobe, or by itself).
MODULES_root=(virtio_pci 9pnet_virtio 9p overlay)
MODULES_network=(virtio_net)
MODULES_rxe=(crc32_generic crc32_pclmul rdma_rxe rdma_ucm)
MODULES_later=(veth tun dummy bridge macvlan 8021q sch_netem sch_tbf ib_umad crc32c_generic
	crc32c_intel)

# An ordinary user's path may lack the place of depmod and modprobe.
PATH=$PATH:/usr/sbin:/sbin
cache=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/rdma-samples
temporary=

cleanup()
{
	[ -z "$temporary" ] || rm -rf "$temporary"
}

# The newest kernel in the cache.
cached_kernel()
{
	local folder newest=

	for folder in "$cache"/kernel-*/; do
		[ ! -e "$folder/image" ] || newest=$(printf '%s\n' "$newest" "${folder%/}" |
			sort -V | tail -n 1)
	done
	printf '%s\n' "$newest"
}

kernel_package()
{
	{ LC_ALL=C apt-cache depends --important linux-image-amd64 2>/dev/null || :; } |
		awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }'
}

download()
{
	local package

	package=$(kernel_package)
	[ -n "$package" ] || return 1
	step "downloading $package (about 70 MB, once)"
	(cd "$temporary" && apt-get -q -o APT::Sandbox::User=root download "$package" \
		>download.log 2>&1)
}

# The package lists may be missing, or so old that the package they name is gone.
download_kernel()
{
	download && return 0
	quietly as_root apt-get update -q
	download && return 0
	cat "$temporary/download.log" >&2 || :
	fail "cannot download the kernel package"
}

# The uncompressed kernel inside an image boots 4 seconds faster under emulation. Where it cannot
# be had (another format or compression), the image itself does.
extract_kernel()
{
	local image=$1 to=$2 sectors offset length

	sectors=$(od -An -tu1 -j497 -N1 "$image")
	offset=$(od -An -tu4 -j584 -N4 "$image")
	length=$(od -An -tu4 -j588 -N4 "$image")
	# The last 4 bytes of that part are the uncompressed length.
	if tail -c +$(((sectors + 1) * 512 + offset + 1)) "$image" |
		{ head -c $((length - 4)) && cat >/dev/null; } |
		xz -dc >"$to" 2>/dev/null && [ "$(head -c 4 "$to")" = $'\x7fELF' ]; then
		return 0
	fi
	cp "$image" "$to"
}

# The files of modules and all they need, in the order to load them.
module_files()
{
	local module

	for module in "$@"; do
		modprobe -C /dev/null -d "$root" -S "$release" --show-depends "$module" ||
			fail "the kernel package has no module $module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# Keeps of the kernel package (400 MB) what the guest can use (under 80 MB).
unpack_kernel()
{
	local root=$temporary/unpacked kept=$temporary/kept release files file

	dpkg-deb -x "$temporary"/linux-image-*.deb "$root"
	release=$(basename "$root"/lib/modules/*)
	depmod -b "$root" "$release"
	files=$(module_files "${MODULES_root[@]}" "${MODULES_network[@]}" "${MODULES_rxe[@]}" \
		"${MODULES_later[@]}")
	while read -r file; do
		install -D -m 644 "$file" "$kept/${file#"$root"/}"
	done <<<"$files"
	cp "$root/lib/modules/$release"/modules.{builtin,builtin.modinfo,order} \
		"$kept/lib/modules/$release"
	depmod -b "$kept" "$release" 2>/dev/null
	extract_kernel "$root/boot/vmlinuz-$release" "$kept/image"
	chmod 755 "$kept"
	mv "$kept" "$cache/kernel-$release"
}

make_initramfs()
{
	local root=$kernel release files=$temporary/files phase file list

	release=$(basename "$kernel"/lib/modules/*)
	mkdir -p "$files/bin" "$files/modules"
	cp /bin/busybox "$files/bin"
	install -m 755 "$here/init" "$files/init"
	: >"$temporary/seen"
	for phase in root network rxe; do
		declare -n list=MODULES_$phase
		module_files "${list[@]}" | { grep -vxFf "$temporary/seen" || :; } >"$temporary/new"
		cat "$temporary/new" >>"$temporary/seen"
		while read -r file; do
			cp "$file" "$files/modules"
			printf '%s\n' "${file##*/}"
		done <"$temporary/new" >"$files/modules/$phase"
	done
	(cd "$files" && find . | cpio -o -H newc -R 0:0 --quiet) >"$temporary/initramfs"
	mv "$temporary/initramfs" "$initramfs"
	find "$cache" -maxdepth 1 -name 'initramfs-*' -mtime +7 ! -samefile "$initramfs" -delete
}

# Sets $initramfs: named after all that goes into it.
name_initramfs()
{
	local sum

	sum=$({
		printf '%s\n' "$kernel"
		cat "$here/init" "$here/prepare.sh" /bin/busybox
	} | sha256sum)
	initramfs=$cache/initramfs-${sum:0:16}
}

build()
{
	local lock

	mkdir -p "$cache"
	exec {lock}>"$cache/lock"
	flock "$lock"
	trap cleanup EXIT
	trap 'exit 1' INT TERM HUP
	temporary=$(mktemp -d "$cache/tmp.XXXXXX")
	kernel=$(cached_kernel)
	if [ -z "$kernel" ]; then
		install_packages xz-utils
		download_kernel
		unpack_kernel
		kernel=$(cached_kernel)
	fi
	name_initramfs
	[ -e "$initramfs" ] || make_initramfs
}

kernel=$(cached_kernel)
[ -z "$kernel" ] || name_initramfs
if [ -z "$kernel" ] || [ ! -e "$initramfs" ]; then
	build
fi
printf '%s\n' "$kernel/image" "$initramfs" "$kernel"/lib/modules/*
