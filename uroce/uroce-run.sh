#!/bin/sh
# Runs a program with the uroce devices of this machine among its RDMA devices.
set -eu

usage()
{
	cat <<'EOF'
usage: uroce-run [OPTION]... PROGRAM [ARGUMENT]...

Runs a program with a software RDMA device for each network interface that is up: uroce_eth0,
uroce_lo and so on.

  --pcap FILE    write all packets to FILE, for Wireshark
  --faults TEXT  spoil packets on their way out, for example
                 drop=5%,dup=1%,reorder=1%,corrupt=0.1%,delay=2ms,seed=7;
                 rx_drop=5% loses some of those that come
  --log LEVEL    say more on standard error: error, warning, info, debug
  --counters     print counters at the end
  --help         show this

The same through the environment: UROCE_PCAP, UROCE_FAULTS, UROCE_LOG, UROCE_COUNTERS=1, LD_PRELOAD.
EOF
}

# Ends with a reason, and how it is used.
wrong()
{
	printf 'uroce-run: %s\n' "$*" >&2
	usage >&2
	exit 2
}

# The library: of the build folder that this script stands in, or installed.
find_library()
{
	here=$(dirname "$(readlink -f "$0")")
	for library in "$here/api/liburoce.so" "$here/liburoce.so" '@libdir@/liburoce.so'; do
		if [ -e "$library" ]; then
			printf '%s\n' "$library"
			return
		fi
	done
	printf 'uroce-run: liburoce.so is neither in %s nor in %s\n' "$here" '@libdir@' >&2
	exit 1
}

# The value of an option that needs one.
value()
{
	[ $# -ge 2 ] || wrong "$1 needs a value"
	printf '%s\n' "$2"
}

while [ $# -gt 0 ]; do
	case $1 in
	--pcap)
		UROCE_PCAP=$(value "$@")
		export UROCE_PCAP
		shift 2
		;;
	--faults)
		UROCE_FAULTS=$(value "$@")
		export UROCE_FAULTS
		shift 2
		;;
	--log)
		UROCE_LOG=$(value "$@")
		export UROCE_LOG
		shift 2
		;;
	--counters)
		export UROCE_COUNTERS=1
		shift
		;;
	--help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	-*)
		wrong "there is no option $1"
		;;
	*)
		break
		;;
	esac
done
[ $# -gt 0 ] || wrong "no program"

library=$(find_library)
case $library in
*[\ :]*)
	printf 'uroce-run: %s: LD_PRELOAD takes no path with a space or a colon\n' "$library" >&2
	exit 1
	;;
esac
export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library"
exec "$@"
