#!/usr/bin/env bash
# Images for guests of the lab's hypervisors, made here and kept in ~/.cache/egress-proxies-lab by
# what their recipe says. Each verb prints the path of its image.
#   guest-image.sh guest      a Debian cloud image: UEFI, cloud-init, Squid, qemu-guest-agent. Needs root,
#                             and Debian's packages; 80 s once
#   guest-image.sh halting    a disk of some KB, for BIOS and UEFI alike, that halts its processor at once: a
#                             domain that runs and uses no processor time
# The guest is a cloud image in what counts (firmware, partitions, cloud-init, DHCP by
# systemd-networkd), without what only costs time under software emulation. Its Squid is Debian's: it
# starts by itself after cloud-init has written files, and refuses clients that its squid.conf does not name.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/lab/packages.sh
. "$here/packages.sh"
release=bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-lab

guest() {  # in a scratch folder; leaves `made`
    packages mmdebstrap:mmdebstrap mcopy:mtools mkfs.vfat:dosfstools sfdisk:fdisk mke2fs:e2fsprogs \
        objcopy:binutils qemu-img:qemu-utils python3:python3
    local include=linux-image-cloud-amd64,systemd-sysv,systemd-boot-efi,udev,dbus,cloud-init,lz4,cloud-initramfs-growroot,squid
    include+=,libnss-myhostname,qemu-guest-agent,iproute2,ca-certificates,e2fsprogs,kmod
    # shellcheck disable=SC2016  # it is mmdebstrap's shell that expands $1
    # An initrd with what a virtio guest needs, and nothing else: it is unpacked at every boot.
    mmdebstrap --quiet --variant=minbase --include=$include \
        --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
            printf "MODULES=list\nCOMPRESS=lz4\n" >"$1/etc/initramfs-tools/conf.d/lab"
            printf "%s\n" virtio_pci virtio_blk ext4 crc32c_generic >"$1/usr/share/initramfs-tools/modules.d/lab"' \
        "$release" rootfs.tar >&2
    mkdir root; tar -C root -xpf rootfs.tar; rm rootfs.tar
    echo 'LABEL=cloudimg-rootfs / ext4 defaults,noatime 0 0' >root/etc/fstab
    : >root/etc/resolv.conf  # not that of the machine that builds: Squid would wait for it
    # Where to look for a seed is known; and of cloud-init's modules those that have something to do here.
    echo 'policy: enabled' >root/etc/cloud/ds-identify.cfg
    cat >root/etc/cloud/cloud.cfg.d/90_lab.cfg <<'C'
datasource_list: [NoCloud, None]
cloud_init_modules: [seed_random, bootcmd, write-files, resizefs, disk_setup, mounts, set_hostname, update_hostname, update_etc_hosts, ca-certs, users-groups]
cloud_config_modules: [set-passwords, timezone, runcmd]
cloud_final_modules: [package-update-upgrade-install, write-files-deferred, scripts-vendor, scripts-per-once, scripts-per-boot, scripts-per-instance, scripts-user, phone-home, final-message, power-state-change]
C
    # The network is systemd-networkd's without netplan, whose Python takes seconds.
    ln -s /lib/systemd/system/systemd-networkd.service root/etc/systemd/system/multi-user.target.wants/
    mkdir -p root/etc/systemd/system/network-online.target.wants
    ln -s /lib/systemd/system/systemd-networkd-wait-online.service root/etc/systemd/system/network-online.target.wants/
    # Housekeeping that a guest of some minutes does not need.
    local unit
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer logrotate.timer systemd-pstore.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
        systemd-random-seed.service systemd-journal-flush.service systemd-rfkill.socket getty@.service serial-getty@.service \
        modprobe@.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
        sys-fs-fuse-connections.mount sys-kernel-config.mount proc-sys-fs-binfmt_misc.automount systemd-binfmt.service \
        systemd-machine-id-commit.service systemd-logind.service systemd-user-sessions.service; do
        ln -sf /dev/null "root/etc/systemd/system/$unit"
    done

    # One EFI binary: systemd's stub with kernel, initrd and command line as sections behind it.
    local stub=root/usr/lib/systemd/boot/efi/linuxx64.efi.stub kernel initrd end osrel cmd lin ini
    kernel=$(ls root/boot/vmlinuz-*); initrd=$(ls root/boot/initrd.img-*)
    printf 'root=LABEL=cloudimg-rootfs ro console=ttyS0 net.ifnames=0 loglevel=4 mitigations=off audit=0' >cmdline
    page() { echo $(( ($1 + 4095) / 4096 * 4096 )); }
    end=$(objdump -h "$stub" | python3 -c 'import sys
print(max(int(f[2],16)+int(f[3],16) for f in (l.split() for l in sys.stdin) if len(f)==7 and f[0].isdigit()))')
    osrel=$(page "$end"); cmd=$(page $((osrel + $(stat -Lc%s root/usr/lib/os-release))))
    lin=$(page $((cmd + $(stat -c%s cmdline)))); ini=$(page $((lin + $(stat -c%s "$kernel"))))
    objcopy --add-section .osrel=root/usr/lib/os-release --change-section-vma .osrel="$osrel" \
        --add-section .cmdline=cmdline --change-section-vma .cmdline="$cmd" \
        --add-section .linux="$kernel" --change-section-vma .linux="$lin" \
        --add-section .initrd="$initrd" --change-section-vma .initrd="$ini" "$stub" uki.efi

    truncate -s 64M esp.img; mkfs.vfat -n ESP esp.img >/dev/null
    mmd -i esp.img ::/EFI ::/EFI/BOOT; mcopy -i esp.img uki.efi ::/EFI/BOOT/BOOTX64.EFI
    truncate -s 900M root.img; mke2fs -q -t ext4 -L cloudimg-rootfs -d root root.img
    truncate -s 1000M disk.raw
    printf 'label: gpt\nstart=2048, size=131072, type=U\nstart=133120, type=L\n' | sfdisk -q disk.raw
    dd if=esp.img of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none
    dd if=root.img of=disk.raw bs=1M seek=65 conv=notrunc,sparse status=none
    qemu-img convert -c -O qcow2 disk.raw made
}

halting() {
    packages mcopy:mtools mkfs.vfat:dosfstools sfdisk:fdisk qemu-img:qemu-utils python3:python3
    # For UEFI: a PE image of one section. Beside halting it stops the timers that the firmware has set
    # going (the PIT; that of the local APIC), a hundred ticks a second otherwise.
    python3 - <<'P'
from struct import pack
halt = (b"\xfa\xb0\x30\xe6\x43"  # cli; mov al, 0x30; out 0x43, al
    + b"\xbf\x80\x03\xe0\xfe\x31\xc0\x89\x07"  # mov edi, 0xfee00380; xor eax, eax; mov [rdi], eax
    + b"\xf4\xeb\xfd")  # hlt; jmp to hlt
head = (b"MZ" + bytes(58) + pack("<I", 64) + b"PE\0\0"
    + pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22E)
    # PE32+, entry and code at 4096, image base 0x400000, an EFI application of two pages
    + pack("<HBBIIIII", 0x20B, 0, 0, 512, 0, 0, 4096, 4096)
    + pack("<QIIHHHHHHIIIIHHQQQQII", 0x400000, 4096, 512, 0, 0, 0, 0, 0, 0, 0, 8192, 512, 0, 10, 0,
           4096, 4096, 4096, 4096, 0, 16) + bytes(128)
    + b".text\0\0\0" + pack("<IIIIIIHHI", 512, 4096, 512, 512, 0, 0, 0, 0, 0x60000020))
open("halt.efi", "wb").write(head.ljust(512, b"\0") + halt.ljust(512, b"\0"))
P
    truncate -s 2M esp.img; mkfs.vfat -n ESP esp.img >/dev/null
    mmd -i esp.img ::/EFI ::/EFI/BOOT; mcopy -i esp.img halt.efi ::/EFI/BOOT/BOOTX64.EFI
    truncate -s 4M disk.raw
    printf 'label: dos\nstart=2048, size=4096, type=ef, bootable\n' | sfdisk -q disk.raw
    dd if=esp.img of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none
    # For BIOS: cli; hlt; jmp to hlt.
    printf '\xfa\xf4\xeb\xfd' | dd of=disk.raw conv=notrunc status=none
    qemu-img convert -O qcow2 disk.raw made
}

verb=${1:-help}
# An image is what its recipe says, without the comments.
version() { declare -f "$verb" | sha256sum | cut -c1-16; }
case $verb in
guest) out=$cache/guest-$release-$(version).qcow2 ;;
halting) out=$cache/halting-$(version).qcow2 ;;
*) sed -n '2,11p' "$0"; exit 2 ;;
esac
if [ ! -s "$out" ]; then
    mkdir -p "$cache"; exec 8>"$cache/$verb.lock"
    flock -n 8 || { echo "guest-image.sh: another run builds, waiting" >&2; flock 8; }
fi
if [ ! -s "$out" ]; then
    if [ "$verb" = guest ] && ((EUID != 0)); then echo "guest-image.sh: making the guest needs root" >&2; exit 1; fi
    echo "guest-image.sh: making the $verb image (kept in $out)" >&2
    # Beside it first: a build that is cut short leaves no half-written image behind.
    rm -rf "$cache/$verb.part".*
    scratch=$(mktemp -d "$cache/$verb.part.XXXX"); trap 'rm -rf "$scratch"' EXIT
    (cd "$scratch"; "$verb" 8>&-)
    chmod 644 "$scratch/made"; mv "$scratch/made" "$out"
fi
echo "$out"
