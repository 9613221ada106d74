//! Bytes into a volume and out of one.

use super::{
    classify::refused,
    create::make_volume,
    error::HostError,
    images,
    libvirt::{Libvirt, rpc},
    link::Answer,
    volume,
};
use actors::provider::contract::ErrorClass;
use virt::{storage_pool::StoragePool, storage_vol::StorageVol, stream::Stream};

/// What libvirt reads in one packet, without its header.
const PIECE: usize = 262_120;

/// The reason of an upload of which other bytes are found on the host.
pub const NOT_KEPT: &str = "NotKept";

/// An upload under way.
pub struct Upload<'a> {
    stream: Stream,
    connect: &'a Libvirt,
    name: &'a str,
}

impl<'a> Upload<'a> {
    /// Begins to write into the volume `name` at `offset`.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn begin(
        connect: &'a Libvirt,
        there: &StorageVol,
        name: &'a str,
        offset: u64,
    ) -> Answer<Self> {
        let failed = |fault| refused(format!("upload volume {name}"), &fault);
        let stream = Stream::new(connect, 0).map_err(failed)?;
        connect.may_act()?;
        // As long as it takes: a volume grows with what is written.
        rpc("virStorageVolUpload", name, || {
            there.upload(&stream, offset, 0, 0)
        })
        .map_err(failed)?;
        Ok(Self {
            stream,
            connect,
            name,
        })
    }

    /// Sends all of `bytes`. What is wrong on the host may show only in [`Self::finish`].
    ///
    /// # Errors
    /// What libvirt gives, or that this process may not act any more.
    pub fn send(&self, mut bytes: &[u8]) -> Answer<()> {
        while !bytes.is_empty() {
            let piece = &bytes[..bytes.len().min(PIECE)];
            self.connect.may_act()?;
            let sent = self
                .stream
                .send(piece)
                .map_err(|fault| self.failed(&fault))?;
            bytes = &bytes[usize::try_from(sent).unwrap_or_default()..];
        }
        Ok(())
    }

    /// Waits until the host has all of it.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn finish(self) -> Answer<()> {
        let name = self.name;
        rpc("virStreamFinish", name, || self.stream.finish())
            .map_err(|fault| refused(format!("upload volume {name}"), &fault))
    }

    /// Gives it up.
    pub fn abort(self) {
        // It is of no use any more, whatever libvirt says.
        rpc("virStreamAbort", self.name, || self.stream.abort()).ok();
    }

    fn failed(&self, fault: &virt::error::Error) -> HostError {
        refused(format!("upload volume {}", self.name), fault)
    }
}

/// Writes `bytes` into a volume at `offset`, and reads them again: where the pool is full, libvirt calls an
/// upload into a hole a success (seen on 9.0), and the hole stays.
///
/// # Errors
/// What libvirt gives; `QuotaExceeded` when other bytes are there.
pub fn at(
    connect: &Libvirt,
    there: &StorageVol,
    name: &str,
    offset: u64,
    bytes: &[u8],
) -> Answer<()> {
    let upload = Upload::begin(connect, there, name, offset)?;
    upload.send(bytes)?;
    upload.finish()?;
    if read(connect, there, name, offset, bytes.len())? == bytes {
        return Ok(());
    }
    let message = format!(
        "upload volume {name}: the host did not keep it; no space left in the pool, it seems"
    );
    Err(HostError::new(ErrorClass::QuotaExceeded, message).because(NOT_KEPT))
}

/// Makes the volume `name` of `bytes`, in place of one that is there.
///
/// # Errors
/// What libvirt gives.
pub fn small(
    connect: &Libvirt,
    in_pool: &StoragePool,
    name: &str,
    bytes: &[u8],
) -> Answer<StorageVol> {
    if let Some(old) = images::volume(in_pool, name)? {
        images::delete(connect, &old, name)?;
    }
    let xml = volume::upload_xml(name, bytes.len() as u64);
    let made = make_volume(connect, in_pool, name, &xml)?;
    at(connect, &made, name, 0, bytes)?;
    Ok(made)
}

/// What a volume has from `offset` on, at most so many bytes.
///
/// # Errors
/// What libvirt gives.
pub fn read(
    connect: &Libvirt,
    there: &StorageVol,
    name: &str,
    offset: u64,
    largest: usize,
) -> Answer<Vec<u8>> {
    let failed = |fault| refused(format!("read volume {name}"), &fault);
    let stream = Stream::new(connect, 0).map_err(failed)?;
    rpc("virStorageVolDownload", name, || {
        there.download(&stream, offset, largest as u64, 0)
    })
    .map_err(failed)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; largest.min(PIECE)]);
    loop {
        let got = stream.recv(&mut piece).map_err(failed)?;
        match usize::try_from(got).unwrap_or_default() {
            0 => break,
            got => bytes.extend_from_slice(&piece[..got]),
        }
    }
    stream.finish().map_err(failed)?;
    Ok(bytes)
}
