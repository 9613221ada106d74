//! The image server: gives files over HTTP/1.1 as well or as badly as a test asks for, and counts.
//!
//! Every path has a [`Manner`], which may be changed while a file is under way: what was stalled goes
//! on when it is told to. It speaks raw HTTP, because a server library would not break it.

// By path, so that this file can be a module of a test binary and of its own example alike.
#[path = "image_server/reply.rs"]
mod reply;

use anyhow::{Context as _, bail};
use reply::{Asked, Head, plan};
use std::{
    collections::HashMap,
    io::SeekFrom,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

/// A file is sent in pieces of this.
const PIECE: usize = 256 * 1024;
/// The longest request that is read.
const LONGEST_REQUEST: usize = 16 * 1024;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// By `Content-Length`.
    #[default]
    Length,
    /// By closing the connection.
    Close,
    /// By the last chunk.
    Chunked,
}

/// How a path is answered. The default is a faultless server.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// This status, without a file: 403, 404, 503.
    pub status: Option<u16>,
    /// 302 to this path or URL.
    pub redirect: Option<String>,
    /// How the end of the file is told.
    pub framing: Framing,
    /// The connection is closed after so many bytes of the file, as if the server had died.
    pub cut_after: Option<u64>,
    /// Nothing more is sent after so many bytes of the file, and the connection stays open.
    pub stall_after: Option<u64>,
    /// Bytes a second, about.
    pub speed: Option<u64>,
    /// `Range` is not known of: always the whole file.
    pub no_ranges: bool,
    /// `ETag`, with its quotes.
    pub etag: Option<String>,
    /// `Content-Encoding`; the file is sent as it is nevertheless.
    pub encoding: Option<String>,
}

/// What was asked of a path so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// GET requests.
    pub gets: u64,
    /// All other requests.
    pub others: u64,
    /// Bytes of the file handed to the network.
    pub bytes: u64,
    /// GET requests whose answer was sent to its end.
    pub whole: u64,
    /// Answers under way.
    pub open: u64,
}

/// A running image server. Dropping it closes its listener and every connection.
pub struct ImageServer {
    /// Where it listens.
    pub address: SocketAddr,
    shelves: Arc<Shelves>,
    _listener: JoinSet<()>,
}

impl ImageServer {
    /// Listens on a free port of `address` until the value is dropped.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub async fn start(address: IpAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await;
        let listener = listener.with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr()?;
        let shelves = Arc::new(Shelves::default());
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::clone(&shelves)));
        Ok(Self {
            address,
            shelves,
            _listener: task,
        })
    }

    /// The URL of `path`, which starts with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on `path` is this file, and its manner faultless.
    pub fn give(&self, path: &str, file: impl Into<PathBuf>) {
        self.shelves.change(path, |shelf| {
            shelf.file = Some(file.into());
            shelf.manner.send_replace(Manner::default());
        });
    }

    /// From now on, and for what is under way, `path` is answered like this.
    pub fn behave(&self, path: &str, manner: Manner) {
        self.shelves.change(path, |shelf| {
            shelf.manner.send_replace(manner);
        });
    }

    /// What was asked of `path` so far.
    #[must_use]
    pub fn tally(&self, path: &str) -> Tally {
        let shelves = self.shelves.open();
        shelves
            .get(path)
            .map_or(Tally::default(), |shelf| shelf.tally)
    }
}

#[derive(Default)]
struct Shelf {
    file: Option<PathBuf>,
    manner: watch::Sender<Manner>,
    tally: Tally,
}

/// By path.
#[derive(Default)]
struct Shelves(Mutex<HashMap<String, Shelf>>);

impl Shelves {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Shelf>> {
        // Every write is complete in itself, so that a panic elsewhere leaves the shelves in order.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, path: &str, change: impl FnOnce(&mut Shelf) -> T) -> T {
        change(self.open().entry(path.to_owned()).or_default())
    }

    fn note(&self, path: &str, note: impl FnOnce(&mut Tally)) {
        self.change(path, |shelf| note(&mut shelf.tally));
    }
}

async fn accept(listener: TcpListener, shelves: Arc<Shelves>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shelves = Arc::clone(&shelves);
                    // A peer that goes away is its own affair.
                    connections.spawn(async move { serve(stream, &shelves).await.ok() });
                }
                // Out of descriptors: some come back as connections end.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

/// One request after the other, until one is answered by closing the connection.
async fn serve(mut stream: TcpStream, shelves: &Shelves) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(asked) = request(&mut stream, &mut buffer).await? {
        let path = asked.path.clone();
        shelves.note(&path, |tally| {
            let count = if asked.is_get() {
                &mut tally.gets
            } else {
                &mut tally.others
            };
            *count += 1;
            tally.open += 1;
        });
        let _open = Open {
            shelves,
            path: &path,
        };
        if !answer(&mut stream, &asked, shelves).await? {
            break;
        }
    }
    Ok(())
}

/// An answer under way; takes itself off the tally however it ends.
struct Open<'a> {
    shelves: &'a Shelves,
    path: &'a str,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shelves.note(self.path, |tally| tally.open -= 1);
    }
}

/// The next request; none when the peer is done.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<Option<Asked>> {
    loop {
        if let Some((asked, length)) = Asked::parse(buffer)? {
            buffer.drain(..length);
            return Ok(Some(asked));
        }
        if buffer.len() > LONGEST_REQUEST {
            bail!("a request that does not end");
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Says whether the connection may be used again.
async fn answer(stream: &mut TcpStream, asked: &Asked, shelves: &Shelves) -> anyhow::Result<bool> {
    let (file, manner) = shelves.change(&asked.path, |shelf| {
        (shelf.file.clone(), shelf.manner.subscribe())
    });
    let opened = match &file {
        Some(file) => Some(open(file).await?),
        None => None,
    };
    let size = opened.as_ref().map(|(_, size)| *size);
    let Head { text, body, close } = plan(asked, &manner.borrow(), size);
    stream.write_all(text.as_bytes()).await?;
    if let (Some(part), Some((mut file, _))) = (body, opened) {
        file.seek(SeekFrom::Start(part.start)).await?;
        let mut sending = Sending {
            path: &asked.path,
            shelves,
            manner,
            sent: 0,
        };
        if !sending
            .send(stream, file.take(part.end - part.start))
            .await?
        {
            return Ok(false);
        }
    }
    if asked.is_get() {
        shelves.note(&asked.path, |tally| tally.whole += 1);
    }
    Ok(!close && !asked.last)
}

async fn open(file: &Path) -> anyhow::Result<(File, u64)> {
    let opened = File::open(file).await;
    let opened = opened.with_context(|| file.display().to_string())?;
    let size = opened.metadata().await?.len();
    Ok((opened, size))
}

/// The body of one answer.
struct Sending<'a> {
    path: &'a str,
    shelves: &'a Shelves,
    manner: watch::Receiver<Manner>,
    sent: u64,
}

impl Sending<'_> {
    /// Says whether it was all sent; if not, the connection is to be closed.
    async fn send(
        &mut self,
        stream: &mut TcpStream,
        mut file: tokio::io::Take<File>,
    ) -> anyhow::Result<bool> {
        let chunked = self.manner.borrow().framing == Framing::Chunked;
        let mut piece = vec![0; PIECE];
        loop {
            let Some(room) = self.room(stream).await? else {
                return Ok(false);
            };
            let length = file.read(&mut piece[..room]).await?;
            if length == 0 {
                break;
            }
            if chunked {
                stream
                    .write_all(format!("{length:x}\r\n").as_bytes())
                    .await?;
            }
            stream.write_all(&piece[..length]).await?;
            if chunked {
                stream.write_all(b"\r\n").await?;
            }
            self.sent += length as u64;
            self.shelves
                .note(self.path, |tally| tally.bytes += length as u64);
            let speed = self.manner.borrow().speed;
            if let Some(speed) = speed {
                sleep(Duration::from_micros(
                    length as u64 * 1_000_000 / speed.max(1),
                ))
                .await;
            }
        }
        if chunked {
            stream.write_all(b"0\r\n\r\n").await?;
        }
        Ok(true)
    }

    /// How many bytes may be sent in one go; waits while none may; none when it is to break off.
    async fn room(&mut self, stream: &mut TcpStream) -> anyhow::Result<Option<usize>> {
        loop {
            let manner = self.manner.borrow_and_update().clone();
            // Slow ones send twenty times a second.
            let piece = manner.speed.map_or(PIECE as u64, |speed| speed / 20);
            let left = |limit: Option<u64>| limit.map(|limit| limit.saturating_sub(self.sent));
            let (cut, stall) = (left(manner.cut_after), left(manner.stall_after));
            let room = piece.max(1).min(cut.unwrap_or(u64::MAX));
            let room = room.min(stall.unwrap_or(u64::MAX)).min(PIECE as u64);
            if cut == Some(0) {
                return Ok(None);
            }
            if room > 0 {
                return Ok(Some(usize::try_from(room)?));
            }
            let mut ignored = [0; 64];
            tokio::select! {
                changed = self.manner.changed() => changed?,
                // The peer says nothing while it waits for the file, except that it is gone.
                read = stream.read(&mut ignored) => if read? == 0 {
                    return Ok(None);
                },
            }
        }
    }
}
