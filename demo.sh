#!/bin/bash
# One command on a fresh Debian machine: installs what is needed, builds, runs the RDMA read pair on
# a real kernel RDMA device and shows the text that was read. Root or sudo is needed to install
# packages, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh

TEXT=${1:-"Hi RDMA! You read the memory of another program, while its CPU did nothing."}

install_packages "${BUILD_PACKAGES[@]}" "${VM_PACKAGES[@]}"
step "building"
build_in build
step "starting a virtual machine with the RDMA device rxe0, and the read pair in it"
tests/rxe_vm/run.sh scripts/demo_pair.sh "$TEXT"
