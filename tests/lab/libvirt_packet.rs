//! libvirt's protocol, as far as those have to know it who stand between two that speak it.

use anyhow::{Context as _, ensure};
use std::io;
use tokio::{
    io::AsyncReadExt as _,
    net::{UnixListener, UnixStream, unix::OwnedReadHalf},
    task::JoinSet,
};

/// The program number of libvirt's own calls; keepalive has another one.
const REMOTE: u32 = 0x2000_8086;
/// No packet of libvirt is larger.
const LARGEST: usize = 64 << 20;
/// Its length and six numbers, in bytes.
pub const HEADER: usize = 28;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const STREAM: u32 = 3;

/// Carries every connection that comes in. How one ends is its own affair; what it holds is lost then.
pub async fn accept<F>(listener: UnixListener, carry: impl Fn(UnixStream) -> F)
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((near, _)) = accepted {
                connections.spawn(carry(near));
            },
        }
    }
}

/// One packet: its length, which counts itself, six numbers and the rest.
pub struct Packet {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Which call it is, or is about.
    pub procedure: u32,
    /// Says which answer belongs to which call.
    pub serial: u32,
    program: u32,
    kind: u32,
}

impl Packet {
    /// The next one; none at the end.
    ///
    /// # Errors
    /// A connection that breaks, or does not speak libvirt's protocol.
    pub async fn read(from: &mut OwnedReadHalf) -> anyhow::Result<Option<Self>> {
        let length = match from.read_u32().await {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let size = usize::try_from(length)?;
        ensure!(
            (HEADER..=LARGEST).contains(&size),
            "a packet of {size} bytes"
        );
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        from.read_exact(&mut bytes[4..]).await?;
        let number = |at: usize| {
            let number = bytes[at * 4..][..4].try_into();
            number.map(u32::from_be_bytes).context("four bytes")
        };
        // The second one is the version.
        let (program, procedure, kind, serial) = (number(1)?, number(3)?, number(4)?, number(5)?);
        Ok(Some(Self {
            bytes,
            procedure,
            serial,
            program,
            kind,
        }))
    }

    /// Whether it is a call of libvirt's own.
    pub fn is_call(&self) -> bool {
        self.program == REMOTE && self.kind == CALL
    }

    /// Whether it answers a call.
    pub fn is_reply(&self) -> bool {
        self.kind == REPLY
    }

    /// Whether it is a piece of an upload or download.
    pub fn is_stream(&self) -> bool {
        self.kind == STREAM
    }

    /// Makes it one of another procedure.
    pub fn be(&mut self, procedure: u32) {
        self.bytes[12..16].copy_from_slice(&procedure.to_be_bytes());
    }
}
