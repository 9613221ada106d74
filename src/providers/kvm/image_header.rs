//! What the first bytes of a disk image say about it.
//!
//! An image comes from somewhere on the net and is opened by QEMU on the host: one that points to
//! other files could have the host's own read into a guest.

use super::config::Format;

/// How many of an image's first bytes [`check`] needs; a shorter image gives all that it has.
pub const NEEDED: usize = 512;

/// How what is packed is called.
const PACKED: &str = " file";
const QCOW2: &[u8] = b"QFI\xfb";
/// The header of version 2; later ones are longer.
const QCOW2_HEADER: usize = 72;

/// What an image's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How large the disk is, in bytes; a raw one is as large as its file.
    pub virtual_size: Option<u64>,
}

/// Whether an image that begins with `first_bytes` is of this format and harmless.
///
/// # Errors
/// What is wrong, with what was found and what the config says.
pub fn check(format: Format, first_bytes: &[u8]) -> Result<Header, String> {
    match format {
        Format::Qcow2 if first_bytes.starts_with(QCOW2) => qcow2(first_bytes),
        Format::Qcow2 => Err(match foreign(first_bytes) {
            Some(found) => mismatch(found, format),
            None => "format is qcow2, but the file does not begin like one; is it raw?".into(),
        }),
        Format::Raw => match foreign(first_bytes) {
            Some(found) => Err(mismatch(found, format)),
            None if first_bytes.len() < NEEDED => Err(format!(
                "the file has {} bytes, too few for a disk",
                first_bytes.len()
            )),
            None => Ok(Header { virtual_size: None }),
        },
    }
}

fn mismatch(found: &str, format: Format) -> String {
    let advice = if found.ends_with(PACKED) {
        "; serve the image unpacked"
    } else {
        ""
    };
    format!("format is {format}, but the file is {found}{advice}")
}

/// What the bytes are, if they are known to be no raw disk.
fn foreign(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(usize, &[u8], &str); 22] = [
        (0, b"\x1f\x8b", "a gzip file"),
        (0, b"\xfd7zXZ\0", "an xz file"),
        (0, b"\x28\xb5\x2f\xfd", "a zstd file"),
        (0, b"BZh", "a bzip2 file"),
        (0, b"\x04\x22\x4d\x18", "an lz4 file"),
        (0, b"LZIP", "a lzip file"),
        (0, b"PK\x03\x04", "a zip file"),
        (0, b"7z\xbc\xaf\x27\x1c", "a 7z file"),
        (257, b"ustar", "a tar file"),
        (0, QCOW2, "a qcow2 image"),
        (0, b"QED\0", "a QED image"),
        (0, b"KDMV", "a VMDK image"),
        (0, b"COWD", "a VMDK image"),
        (0, b"# Disk DescriptorFile", "a VMDK descriptor"),
        (64, b"\x7f\x10\xda\xbe", "a VDI image"),
        (0, b"vhdxfile", "a VHDX image"),
        (0, b"conectix", "a VHD image"),
        (0, b"WithoutFreeSpace", "a Parallels image"),
        (0, b"WithouFreSpacExt", "a Parallels image"),
        (0, b"<!DOCTYPE", "a web page"),
        (0, b"<!doctype", "a web page"),
        (0, b"<html", "a web page"),
    ];
    let is = |&&(at, magic, _): &&(usize, &[u8], &str)| {
        bytes.get(at..).is_some_and(|from| from.starts_with(magic))
    };
    KNOWN.iter().find(is).map(|&(_, _, what)| what)
}

/// The header as in QEMU's `docs/interop/qcow2.rst`; its numbers are big-endian.
fn qcow2(bytes: &[u8]) -> Result<Header, String> {
    let refused = |why: String| Err(format!("the qcow2 image {why}"));
    let cut = || format!("the qcow2 image is cut off after {} bytes", bytes.len());
    if bytes.len() < QCOW2_HEADER {
        return Err(cut());
    }
    let version = number(bytes, 4, 4).ok_or_else(cut)?;
    if !matches!(version, 2 | 3) {
        return refused(format!("is of version {version}, not 2 or 3"));
    }
    if number(bytes, 8, 8).ok_or_else(cut)? != 0 || number(bytes, 16, 4).ok_or_else(cut)? != 0 {
        return refused("names a backing file; an image must stand alone".into());
    }
    if number(bytes, 32, 4).ok_or_else(cut)? != 0 {
        return refused("is encrypted".into());
    }
    if version == 3 {
        let features = number(bytes, 72, 8).ok_or_else(cut)?;
        if features & 0b100 != 0 {
            return refused("names an external data file; an image must stand alone".into());
        }
        if features & 0b10 != 0 {
            return refused("is marked corrupt".into());
        }
        let length = number(bytes, 100, 4).ok_or_else(cut)?;
        if length < 104 {
            return refused(format!("has a header of {length} bytes, less than 104"));
        }
    }
    let virtual_size = number(bytes, 24, 8).ok_or_else(cut)?;
    if virtual_size == 0 {
        return refused("has a size of 0".into());
    }
    // Even the smallest has a header cluster of 512 bytes.
    if bytes.len() < NEEDED {
        return Err(cut());
    }
    Ok(Header {
        virtual_size: Some(virtual_size),
    })
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + width)?;
    Some(
        bytes
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sound header of this version, 10 GiB large, with these bytes written over it.
    fn header(version: u8, changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; NEEDED];
        bytes[..4].copy_from_slice(QCOW2);
        bytes[7] = version;
        bytes[24..32].copy_from_slice(&(10_u64 << 30).to_be_bytes());
        bytes[100..104].copy_from_slice(&112_u32.to_be_bytes());
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        bytes
    }

    #[test]
    fn a_sound_image_is_taken() {
        let size = Header {
            virtual_size: Some(10 << 30),
        };
        assert_eq!(check(Format::Qcow2, &header(2, &[])), Ok(size));
        assert_eq!(check(Format::Qcow2, &header(3, &[])), Ok(size));
        // Dirty, compressed by zstd, subclusters: all harmless.
        let features: &[u8] = &[0b1_1001];
        assert_eq!(
            check(Format::Qcow2, &header(3, &[(79, features)])),
            Ok(size)
        );
        // Version 2 has no features, and anything may stand there.
        assert_eq!(check(Format::Qcow2, &header(2, &[(79, &[0xff])])), Ok(size));
        let raw = Header { virtual_size: None };
        assert_eq!(check(Format::Raw, &[0; NEEDED]), Ok(raw));
        let mut with_mbr = [0; NEEDED];
        with_mbr[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(check(Format::Raw, &with_mbr), Ok(raw));
    }

    #[test]
    fn a_harmful_qcow2_is_refused() {
        for (bytes, complaint) in [
            (header(3, &[(15, &[1])]), "names a backing file"),
            (header(2, &[(15, &[1])]), "names a backing file"),
            (header(3, &[(19, &[9])]), "names a backing file"),
            (header(3, &[(79, &[0b100])]), "names an external data file"),
            (header(3, &[(79, &[0b10])]), "is marked corrupt"),
            (header(3, &[(35, &[2])]), "is encrypted"),
            (header(1, &[]), "is of version 1, not 2 or 3"),
            (header(4, &[]), "is of version 4"),
            (
                header(3, &[(100, &[0, 0, 0, 72])]),
                "has a header of 72 bytes",
            ),
            (header(3, &[(24, &[0; 8])]), "has a size of 0"),
            (header(3, &[])[..103].to_vec(), "is cut off after 103 bytes"),
            (header(3, &[])[..511].to_vec(), "is cut off after 511 bytes"),
            (header(2, &[])[..4].to_vec(), "is cut off after 4 bytes"),
        ] {
            let refusal = check(Format::Qcow2, &bytes).expect_err(complaint);
            assert!(refusal.contains(complaint), "{refusal}");
            assert!(refusal.starts_with("the qcow2 image "), "{refusal}");
        }
    }

    #[test]
    fn another_file_is_refused_by_its_name() {
        let beginning = |at: usize, magic: &[u8]| {
            let mut bytes = vec![0; NEEDED];
            bytes[at..at + magic.len()].copy_from_slice(magic);
            bytes
        };
        for (at, magic, found) in [
            (
                0,
                &b"\x1f\x8b\x08"[..],
                "a gzip file; serve the image unpacked",
            ),
            (0, b"\xfd7zXZ\0", "an xz file; serve"),
            (0, b"\x28\xb5\x2f\xfd", "a zstd file; serve"),
            (0, b"BZh9", "a bzip2 file; serve"),
            (0, b"PK\x03\x04", "a zip file; serve"),
            (0, b"\x04\x22\x4d\x18", "an lz4 file; serve"),
            (257, b"ustar", "a tar file; serve"),
            (0, b"KDMV", "a VMDK image"),
            (64, b"\x7f\x10\xda\xbe", "a VDI image"),
            (0, b"vhdxfile", "a VHDX image"),
            (0, b"<!DOCTYPE html>", "a web page"),
        ] {
            for format in [Format::Raw, Format::Qcow2] {
                let refusal = check(format, &beginning(at, magic)).expect_err(found);
                let expected = format!("format is {format}, but the file is {found}");
                assert!(refusal.starts_with(&expected), "{refusal}");
            }
        }
        assert_eq!(
            check(Format::Raw, &header(3, &[])),
            Err("format is raw, but the file is a qcow2 image".into())
        );
        let raw = check(Format::Qcow2, &[0; NEEDED]).expect_err("raw");
        assert!(raw.starts_with("format is qcow2, but"), "{raw}");
        assert!(check(Format::Qcow2, b"").is_err());
        let short = check(Format::Raw, &[0; 511]).expect_err("short");
        assert!(short.starts_with("the file has 511 bytes"), "{short}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 0..NEEDED) {
            check(Format::Qcow2, &bytes).ok();
            check(Format::Raw, &bytes).ok();
            check(Format::Qcow2, &header(3, &[])[..cut]).expect_err("cut off");
        }
    }
}
