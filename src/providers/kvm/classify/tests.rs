use super::*;
use ErrorClass::{NotFound, Permanent, QuotaExceeded, Transient};

/// What a libvirt 9.0.0 answered (code, message) when it was brought into that state.
const ANSWERS: &[(sys::virErrorNumber, &str, ErrorClass)] = &[
    // What is not there.
    (
        42,
        "Domain not found: no domain with matching name 'nobody'",
        NotFound,
    ),
    (
        42,
        "Domain not found: no domain with matching uuid '7d014118-fdaa-4d20-9e22-47752a6a6d17' (a)",
        NotFound,
    ),
    (
        50,
        "Storage volume not found: no storage vol with matching name 'nothing'",
        NotFound,
    ),
    (
        49,
        "Storage pool not found: no storage pool with matching name 'nowhere'",
        Permanent,
    ),
    (
        80,
        "metadata not found: Requested metadata element is not present",
        Transient,
    ),
    (
        38,
        "inaccessible backing store volume /nowhere: No such file or directory",
        Transient,
    ),
    (
        38,
        "Cannot access storage file '/nowhere' (as uid:0, gid:0): No such file or directory",
        Transient,
    ),
    // What is there already, or in another state: somebody else is at work.
    (90, "storage volume 'v' exists already", Transient),
    (
        9,
        "operation failed: domain 'a' already exists with uuid 7d014118-fdaa-4d20-9e22-47752a6a6d17",
        Transient,
    ),
    (
        55,
        "Requested operation is not valid: domain is not running",
        Transient,
    ),
    (
        55,
        "Requested operation is not valid: domain is already running",
        Transient,
    ),
    (
        55,
        "Requested operation is not valid: storage pool 'idle' is not active",
        Transient,
    ),
    // What the config asks for and no host of that kind can do.
    (
        35,
        "(domain_definition):1: Couldn't find end of Start Tag domain line 1\n<domain\n-------^",
        Permanent,
    ),
    (27, "XML error: No PCI buses available", Permanent),
    (
        67,
        "unsupported configuration: unknown volume format type nope",
        Permanent,
    ),
    (
        67,
        "unsupported configuration: Emulator '/usr/bin/qemu-system-x86_64' does not support virt type 'vmware'",
        Permanent,
    ),
    (
        67,
        "unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported by hypervisor",
        Permanent,
    ),
    // A host that is full.
    (
        38,
        "Unable to write /pool/w: No space left on device",
        QuotaExceeded,
    ),
    (
        38,
        "cannot write to stream: No space left on device",
        QuotaExceeded,
    ),
    (
        38,
        "cannot allocate 104857600 bytes in file '/pool/q': No space left on device",
        QuotaExceeded,
    ),
    (
        1,
        "internal error: Child process (/usr/bin/qemu-img create -f qcow2 -o compat=0.10 /pool/r 102400K) unexpected exit status 1: qemu-img: /pool/r: Could not write qcow2 header: No space left on device\n",
        QuotaExceeded,
    ),
    (
        1,
        "internal error: qemu unexpectedly closed the monitor: qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory",
        QuotaExceeded,
    ),
    // What is mended on the host.
    (
        38,
        "Cannot get interface MTU on 'br9': No such device",
        Transient,
    ),
    (
        9,
        "operation failed: Unable to find any firmware to satisfy 'efi'",
        Transient,
    ),
    (
        1,
        "internal error: qemu unexpectedly closed the monitor: Image is not in qcow2 format",
        Transient,
    ),
    (
        74,
        "argument unsupported: QEMU guest agent is not configured",
        Transient,
    ),
    (1, "internal error: wrong nlmsg len", Transient),
    // A connection that is cut, or cannot be made.
    (38, "Cannot write data: Broken pipe", Transient),
    (
        38,
        "Failed to connect socket to '/nowhere': No such file or directory",
        Transient,
    ),
    (1, "internal error: client socket is closed", Transient),
];

#[test]
fn captured_errors_have_their_class() {
    for (code, message, class) in ANSWERS {
        assert_eq!(class_of(*code, message), *class, "{code}: {message}");
    }
}
