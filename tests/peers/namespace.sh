# shellcheck shell=sh # sourced by those that show a program what it looks for
# A mount namespace for a program: of its own, and for who is not root in a user namespace of its own.

# in_namespace SHOW [PROGRAM [ARGUMENT]...]: calls the function SHOW in there, then becomes the program.
in_namespace()
{
	show=$1
	shift
	if [ "${1:-}" = --inside ]; then
		shift
		back=$PWD
		$show
		cd "$back" || exit
		exec "$@"
	fi
	if [ $# -eq 0 ]; then
		printf 'usage: %s PROGRAM [ARGUMENT]...\n' "$0" >&2
		exit 2
	fi
	script=$(readlink -f "$0")
	if [ "$(id -u)" -eq 0 ]; then
		exec unshare --mount "$script" --inside "$@"
	fi
	exec unshare --map-root-user --mount "$script" --inside "$@"
}
