#!/bin/bash
# One command on a fresh Debian machine: installs what is needed, builds, runs a pair of programs (the RDMA
# read pair, or the one that is named) and shows what both say: on this machine's RDMA device, or on uroce,
# the one in user space, if it has none. Root or sudo is needed to install packages, nothing else.
#
# Usage: demo.sh [PAIR [TEXT]]     PAIR: one of those that `demo.sh help` lists, or all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh

PAIR=${1:-read}
TEXT=${2:-"Hi RDMA! No CPU of the other side copied this."}

scripts/demo_pair.sh --check "$PAIR"
install_packages "${BUILD_PACKAGES[@]}"
step "building"
build_in build
scripts/demo_pair.sh "$PAIR" "$TEXT"
