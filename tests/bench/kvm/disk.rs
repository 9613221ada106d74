//! Disks that domains start from, and where they are fetched from.

use crate::{hypervisor::Image, process::Helper};
use anyhow::Context as _;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

const MIB: usize = 1 << 20;
/// `cli; hlt; jmp` to the `hlt`.
const HALT: [u8; 4] = [0xFA, 0xF4, 0xEB, 0xFD];
/// What a BIOS looks for at the end of a disk's first sector.
const BOOTABLE: [u8; 2] = [0x55, 0xAA];

/// A file, given over HTTP by a process of its own.
pub struct Disk {
    pub file: PathBuf,
    pub url: String,
    pub sha256: String,
    pub format: &'static str,
    _server: Helper,
}

impl Disk {
    /// The lab's halting image.
    pub async fn halting() -> anyhow::Result<Self> {
        let file = Image::Halting.file().await?;
        let sha256 = HEXLOWER.encode(&Sha256::digest(fs::read(&file)?));
        Self::serve(file, sha256, "qcow2").await
    }

    /// A raw disk in `folder` that halts, too, and is full of bytes that no one can compress.
    pub async fn random(folder: &Path, mib: usize) -> anyhow::Result<Self> {
        let path = folder.join(format!("{mib}.raw"));
        let (mut file, mut hash) = (File::create(&path)?, Sha256::new());
        let mut block = vec![0u8; MIB];
        for number in 0..mib {
            rand::fill(&mut block[..]);
            if number == 0 {
                block[..HALT.len()].copy_from_slice(&HALT);
                block[510..512].copy_from_slice(&BOOTABLE);
            }
            hash.update(&block);
            file.write_all(&block)?;
        }
        Self::serve(path, HEXLOWER.encode(&hash.finalize()), "raw").await
    }

    async fn serve(file: PathBuf, sha256: String, format: &'static str) -> anyhow::Result<Self> {
        let name = file.to_str().context("a path in UTF-8")?;
        let mut server = Helper::start(&["images", name])?;
        Ok(Self {
            url: server.line().await?,
            file,
            sha256,
            format,
            _server: server,
        })
    }

    /// Its volume in the pool of a host, when it is the image of this key.
    pub fn volume(&self, key: &str) -> String {
        format!("base-{key}-{}.{}", &self.sha256[..12], self.format)
    }
}
