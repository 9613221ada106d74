#!/usr/bin/env bash
# What the build and the tests need beside Rust: says in one line what is missing, and installs it where
# it can. The lab's scripts would install their part when they first need it; doing it here, before
# anything runs, keeps the wait where one expects it.
set -euo pipefail
# shellcheck source=tests/lab/packages.sh
. "$(dirname "$(realpath "$0")")/packages.sh"
# To build: the C compiler for ring, and libvirt's client library.
needs=(cc:gcc pkg-config:pkg-config /usr/include/libvirt/libvirt.h:libvirt-dev)
# For every test: what reads seeds and XML as others do; the cluster and its tools.
needs+=(isoinfo:genisoimage xorriso:xorriso xmllint:libxml2-utils gzip:gzip)
needs+=(go:golang curl:curl python3:python3 openssl:openssl ip:iproute2 nsenter:util-linux)
python3 -c 'import venv, ensurepip' 2>/dev/null || needs+=(/nonexistent:python3-venv)
if ((EUID == 0)); then
    # Hypervisors, their guests and what these are made of.
    needs+=(libvirtd:libvirt-daemon-system virsh:libvirt-clients qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils
        /usr/share/OVMF/OVMF_CODE_4M.fd:ovmf /usr/sbin/sshd:openssh-server ssh:openssh-client dnsmasq:dnsmasq-base
        mmdebstrap:mmdebstrap mcopy:mtools mkfs.vfat:dosfstools sfdisk:fdisk mke2fs:e2fsprogs objcopy:binutils)
fi
packages "${needs[@]}"
