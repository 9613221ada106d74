//! The leanest HTTP/1.1 client: a connection that is kept, prepared requests, and of an answer no more
//! than where it ends. What a client costs is in both sides of a comparison, so it should be little.

use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A connection, and the answer that it read last.
pub struct Wire {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Wire {
    pub async fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            answer: Vec::with_capacity(1024),
        })
    }

    /// Sends a whole request and reads the whole answer: its status and its text.
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<(u16, &str)> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                bail!("the connection was closed");
            }
            if self.is_whole()? {
                break;
            }
        }
        let text = std::str::from_utf8(&self.answer)?;
        let status = text.get(9..12).context("no status")?.parse()?;
        Ok((status, text))
    }

    fn is_whole(&self) -> anyhow::Result<bool> {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut answer = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = answer.parse(&self.answer)? else {
            return Ok(false);
        };
        let length = answer
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let length: usize = match length {
            Some(header) => std::str::from_utf8(header.value)?.parse()?,
            None => 0,
        };
        Ok(self.answer.len() >= head + length)
    }
}
