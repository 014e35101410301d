#!/bin/bash
# One command on a fresh Debian machine: installs what is needed, builds, runs the RDMA read pair and
# shows the text that was read: on this machine's RDMA device, or on uroce, the one in user space, if it
# has none. Root or sudo is needed to install packages, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh

TEXT=${1:-"Hi RDMA! You read the memory of another program, while it did nothing."}

install_packages "${BUILD_PACKAGES[@]}"
step "building"
build_in build
step "the read pair, as in two terminals"
scripts/demo_pair.sh "$TEXT"
