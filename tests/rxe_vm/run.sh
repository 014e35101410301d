#!/bin/bash
# Runs a command in a virtual machine that has a kernel RDMA device: see README.md.
# shellcheck disable=SC2317 # traps call functions
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/lib.sh
. "$here/../../scripts/lib.sh"

# What a command in the guest gets of the environment here, where set.
PASSED_ON=(PATH HOME USER LOGNAME SHELL LANG LC_ALL TERM TZ LD_LIBRARY_PATH
	ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS)

# Runs a program that ends when this script is killed in a way that no trap can catch.
DEPENDENT=(setpriv --pdeathsig TERM)

# Exit statuses of this script's own.
STATUS_USAGE=2
STATUS_TIMEOUT=124
STATUS_BROKEN=125

rxe=yes
timeout=300
memory=2048
cpus=
two=no
pcap=
tap=
clock=real
environment=()
command=()
work=
prepared=()
guests=()
readers=()
declare -A address=([a]=10.77.0.1 [b]=10.77.0.2) out=([a]='' [b]='') shell_command=()
declare -A pid=()
deadline=0

usage()
{
	cat <<'END'
Usage: run.sh [OPTIONS] COMMAND [ARGUMENT...]
       run.sh --two [OPTIONS] --a 'SHELL COMMAND' --b 'SHELL COMMAND'

Runs COMMAND in a virtual machine with the kernel RDMA device rxe0 (on eth0, 10.77.0.1), in the
same folder and on the same root file system as here; changes to it are lost. Exits with the
status of COMMAND. With --two, runs two machines joined by a network, host-a (10.77.0.1) and
host-b (10.77.0.2), each with a shell command; their output lines begin with "a: " and "b: ".

  --no-rxe           do not make the device rxe0
  --timeout SECONDS  end a machine that takes longer, with status 124 (default 300)
  --env NAME=VALUE   set a variable for the command (may be repeated)
  --out DIR          share a writable folder, at the same path there; made if missing
  --out-a DIR, --out-b DIR
                     with --two: the same for each of the machines
  --pcap FILE        with --two: write what crosses the network
  --tap NAME         join the machine's network to this tap device, which is there already
  --memory MB        memory of a machine (default 2048)
  --cpus N           processors of a machine (default 2; 1 with --two)
  --icount           let the machine's clock count instructions, at 2 ns each: what is timed in
                     it while it is busy does not depend on the load here; one processor
  --help             print this

Status 2: wrong usage. 124: out of time. 125: the machine did not start, or crashed.
END
}

wrong_usage()
{
	printf '%s: %s (see --help)\n' "${0##*/}" "$*" >&2
	exit $STATUS_USAGE
}

need_number()
{
	[[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || wrong_usage "$1 needs a whole number above 0, not '$2'"
}

# Sets the option $1 to $2.
set_option()
{
	case $1 in
		--timeout) need_number "$1" "$2" && timeout=$2 ;;
		--memory) need_number "$1" "$2" && memory=$2 ;;
		--cpus) need_number "$1" "$2" && cpus=$2 ;;
		--env)
			[[ $2 =~ ^[A-Za-z_][A-Za-z_0-9]*= ]] || wrong_usage "--env needs NAME=VALUE"
			environment+=("$2")
			;;
		--out | --out-a) out[a]=$2 ;;
		--out-b) out[b]=$2 ;;
		--pcap) pcap=$(realpath -m -- "$2") ;;
		--tap)
			[[ $2 =~ ^[A-Za-z0-9_.-]{1,15}$ ]] || wrong_usage "--tap needs a name, not '$2'"
			tap=$2
			;;
		--a | --b) shell_command[${1#--}]=$2 ;;
	esac
}

parse_arguments()
{
	local seen=' '

	while [ $# -gt 0 ]; do
		case $1 in
			--no-rxe) rxe=no ;;
			--two) two=yes ;;
			--icount) clock=instructions ;;
			--help)
				usage
				exit 0
				;;
			--timeout | --memory | --cpus | --env | --pcap | --tap | --out | \
				--out-[ab] | --[ab])
				[ $# -ge 2 ] || wrong_usage "$1 needs a value"
				set_option "$1" "$2"
				seen+="$1 "
				shift
				;;
			--)
				shift
				break
				;;
			-*) wrong_usage "unknown option $1" ;;
			*) break ;;
		esac
		shift
	done
	command=("$@")
	check_arguments "$seen"
	[ $clock = real ] || cpus=1
	[ -n "$cpus" ] || cpus=$((2 / ${#guests[@]}))
}

check_arguments()
{
	local option

	[ $clock = real ] || [[ $two = no && $1 != *' --cpus '* ]] ||
		wrong_usage "--icount is for one machine with one processor"
	if [ $two = yes ]; then
		[ ${#command[@]} -eq 0 ] || wrong_usage "--two takes no COMMAND but --a and --b"
		[ ${#shell_command[@]} -eq 2 ] || wrong_usage "--two needs both --a and --b"
		[[ $1 != *' --out '* ]] || wrong_usage "--two takes --out-a and --out-b, not --out"
		[ -z "$tap" ] || wrong_usage "--two takes no --tap"
		guests=(a b)
		return 0
	fi
	for option in --a --b --out-a --out-b --pcap; do
		[[ $1 != *" $option "* ]] || wrong_usage "$option is for --two"
	done
	[ ${#command[@]} -gt 0 ] || wrong_usage "no command given"
	guests=(a)
}

# Prints text as one word of a shell, exactly.
quote()
{
	local LC_ALL=C

	printf "'%s'" "${1//\'/\'\\\'\'}"
}

# The script by which guest $1 starts its command.
start_script()
{
	local name setting argument

	for name in "${PASSED_ON[@]}"; do
		[ -z "${!name+set}" ] || printf 'export %s=%s\n' "$name" "$(quote "${!name}")"
	done
	# An ordinary user's path may lack these, and the command runs as root.
	printf "PATH=\$PATH:/usr/sbin:/sbin\nexport RXE_VM=%s\n" "$1"
	for setting in ${environment[@]+"${environment[@]}"}; do
		printf 'export %s=' "${setting%%=*}"
		quote "${setting#*=}"
		printf '\n'
	done
	printf 'cd %s || exit %s\nexec' "$(quote "$PWD")" $STATUS_BROKEN
	[ $two = no ] || command=(/bin/sh -c "${shell_command[$1]}")
	for argument in "${command[@]}"; do
		printf ' '
		quote "$argument"
	done
	printf '\n'
}

# What init in guest $1 reads.
settings()
{
	local peer=

	if [ $two = yes ]; then
		[ "$1" = a ] && peer=${address[b]} || peer=${address[a]}
	fi
	printf '%s=%s\n' hostname "host-$1" address "${address[$1]}" peer "$peer" rxe $rxe \
		release "$(quote "${prepared[2]##*/}")" modules "$(quote "${prepared[2]}")" \
		out "$(quote "${out[$1]}")"
}

# In an option of QEMU a comma is doubled.
escaped()
{
	printf '%s' "${1//,/,,}"
}

# Sets $share to the QEMU options for the folder $2 shared by the name $1, with more options $3.
share_options()
{
	share=(-fsdev "local,id=$1,path=$(escaped "$2"),security_model=none,multidevs=remap$3"
		-device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

# Sets $network to the QEMU options for the network of guest $1: a cable, with nothing at its end
# when there is but one guest without a tap device. $2: listens for the other end (on, off); $3: number of the guest.
network_options()
{
	local cable card

	cable=dgram,id=net,local.type=unix,local.path=../net,remote.type=unix,remote.path=../none
	if [ $two = yes ]; then
		cable="stream,id=net,addr.type=unix,addr.path=../net,server=$2"
	elif [ -n "$tap" ]; then
		cable=tap,id=net,ifname=$tap,script=no,downscript=no
	fi
	network=(-netdev "$cable")
	card="virtio-net-pci,netdev=net,mac=52:54:00:77:00:0$3,romfile=,speed=10000,duplex=full"
	network+=(-device "$card")
	if [ -n "$pcap" ] && [ "$1" = a ]; then
		network+=(-object "filter-dump,id=dump,netdev=net,file=$(escaped "$pcap")")
	fi
}

# Sets $options to the QEMU options for guest $1.
guest_options()
{
	local name=$1 share network engine=(-accel 'tcg,thread=multi')
	local arguments='console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable'

	arguments+=' cryptomgr.notests random.trust_cpu=on audit=0 apparmor=0'
	[ $clock = real ] || engine=(-accel 'tcg,thread=single' -icount shift=1)
	options=("${engine[@]}" -cpu max -m "$memory" -smp "$cpus" -no-reboot
		-nodefaults -display none -monitor none -serial file:console
		-kernel "${prepared[0]}" -initrd "${prepared[1]}" -append "$arguments")
	share_options root / ,readonly=on
	options+=("${share[@]}")
	share_options ctl ctl ''
	options+=("${share[@]}")
	if [ -n "${out[$name]}" ]; then
		share_options out "${out[$name]}" ''
		options+=("${share[@]}")
	fi
	if [ "$name" = a ]; then
		network_options a on 1
	else
		network_options b off 2
	fi
	options+=("${network[@]}")
}

start_guest()
{
	local name=$1 options

	mkdir -p "$work/$name/ctl"
	touch "$work/$name"/{console,qemu.log} "$work/$name/ctl"/{stdout,stderr}
	settings "$name" >"$work/$name/ctl/settings"
	start_script "$name" >"$work/$name/ctl/start"
	guest_options "$name"
	(cd "$work/$name" && exec "${DEPENDENT[@]}" qemu-system-x86_64 "${options[@]}") \
		</dev/null >"$work/$name/qemu.log" 2>&1 &
	pid[$name]=$!
	read_output "$name" stdout &
	readers+=($!)
	read_output "$name" stderr >&2 &
	readers+=($!)
}

# Copies the stream $2 of guest $1 while it runs.
read_output()
{
	local follow label

	follow=("${DEPENDENT[@]}" tail -c +1 -f -s 0.05 "--pid=${pid[$1]}" "$work/$1/ctl/$2")
	[ $two = yes ] || exec "${follow[@]}"
	# shellcheck disable=SC2016
	label='BEGIN { $| = 1; $label = shift } chomp; print "$label: $_\n"'
	exec "${DEPENDENT[@]}" perl -ne "$label" "$1" < <(exec "${follow[@]}")
}

is_running()
{
	kill -0 "${pid[$1]}" 2>/dev/null
}

# Ends guest $1, in the end by force.
end_guest()
{
	local attempt

	[ -n "${pid[$1]-}" ] || return 0
	kill -TERM "${pid[$1]}" 2>/dev/null || :
	for ((attempt = 0; attempt < 60; attempt++)); do
		is_running "$1" || break
		sleep 0.05
	done
	kill -KILL "${pid[$1]}" 2>/dev/null || :
	{ wait "${pid[$1]}" || :; } 2>/dev/null
	unset "pid[$1]"
}

end_all()
{
	local guest

	for guest in "${guests[@]}"; do
		end_guest "$guest"
	done
}

drain_output()
{
	{ wait ${readers[@]+"${readers[@]}"} || :; } 2>/dev/null
	readers=()
}

clean_up()
{
	trap '' INT TERM HUP
	end_all
	if [ ${#readers[@]} -gt 0 ]; then
		kill "${readers[@]}" 2>/dev/null || :
		drain_output
	fi
	[ -z "$work" ] || rm -rf "$work"
}

# Ends the script because of guest $2, with status $1 and a reason.
give_up()
{
	local status=$1 guest=$2 file
	shift 2

	end_all
	drain_output
	{
		printf '%s: %s\n' "${0##*/}" "$*"
		for file in console qemu.log; do
			[ -s "$work/$guest/$file" ] || continue
			printf '%s\n' "--- the last lines of its $file:"
			tail -n 60 "$work/$guest/$file" | tr -d '\r'
		done
	} >&2
	exit "$status"
}

# Waits until all guests have made the file $1 in their control folder.
await()
{
	local guest missing

	while :; do
		missing=
		for guest in "${guests[@]}"; do
			[ ! -e "$work/$guest/ctl/$1" ] || continue
			missing=${missing:-$guest}
			is_running "$guest" || [ -e "$work/$guest/ctl/$1" ] ||
				give_up $STATUS_BROKEN "$guest" \
					"machine $guest ended before the command did"
		done
		[ -n "$missing" ] || return 0
		[ $SECONDS -lt $deadline ] || give_up $STATUS_TIMEOUT "$missing" \
			"machine $missing took longer than $timeout seconds, and was ended"
		sleep 0.05
	done
}

# Lets all guests go on that wait for the file $1.
tell_all()
{
	local guest

	for guest in "${guests[@]}"; do
		: >"$work/$guest/ctl/$1"
	done
}

start_all()
{
	local guest

	deadline=$((SECONDS + timeout))
	start_guest a
	[ $two = yes ] || return 0
	# The first guest's end of the cable must be there before the second one's.
	until [ -S "$work/net" ]; do
		is_running a || give_up $STATUS_BROKEN a "machine a did not start"
		sleep 0.02
	done
	start_guest b
}

run_guests()
{
	local guest attempt

	start_all
	if [ $two = yes ]; then
		await ready
		tell_all go
		await finished
		tell_all end
	fi
	await status
	for guest in "${guests[@]}"; do
		for ((attempt = 0; attempt < 100; attempt++)); do
			is_running "$guest" || break
			sleep 0.05
		done
	done
	end_all
	drain_output
}

# Exits with the first status that is not 0.
pass_on_status()
{
	local guest status

	for guest in "${guests[@]}"; do
		read -r status <"$work/$guest/ctl/status"
		[ "$status" -eq 0 ] || exit "$status"
	done
	exit 0
}

prepare()
{
	local guest text

	install_packages "${VM_PACKAGES[@]}"
	# QEMU would make the device, of which nobody knows.
	[ -z "$tap" ] || ip link show dev "$tap" >/dev/null || exit $STATUS_BROKEN
	text=$("$here/prepare.sh") || exit $STATUS_BROKEN
	mapfile -t prepared <<<"$text"
	for guest in "${guests[@]}"; do
		[ -n "${out[$guest]}" ] || continue
		mkdir -p -- "${out[$guest]}"
		out[$guest]=$(realpath -- "${out[$guest]}")
	done
	work=$(mktemp -d "${TMPDIR:-/tmp}/rxe_vm.XXXXXX")
	work=$(realpath "$work")
}

parse_arguments "$@"
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
prepare
run_guests
pass_on_status
