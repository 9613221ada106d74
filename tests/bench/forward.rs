//! The leanest forward proxy: answers every request in absolute form with 204 itself, on every address
//! of loopback, so that ten thousand proxies have ten thousand addresses and the proxy side costs next
//! to nothing.

use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

/// Says its port in a line, then serves until it is killed.
pub async fn serve() -> anyhow::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind("0.0.0.0:0".parse()?)?;
    let listener = socket.listen(4096)?;
    println!("{}", listener.local_addr()?.port());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(answer(stream));
            }
            // Out of descriptors: some come back as connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn answer(mut stream: TcpStream) -> Option<()> {
    let mut request = Vec::with_capacity(512);
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).await.ok()
}
