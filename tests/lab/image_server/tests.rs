//! What each switch of the image server does on the wire, seen with a raw client.

use crate::image_server::{Framing, ImageServer, Manner, Tally};
use std::{net::Ipv4Addr, time::Duration};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::yield_now,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_mins(1);
/// More than one piece, and no multiple of one.
const SIZE: usize = 600_001;

/// A server with one file at `/image`.
struct Fixture {
    server: ImageServer,
    content: Vec<u8>,
    _file: NamedTempFile,
}

impl Fixture {
    async fn new(manner: Manner) -> Self {
        let content: Vec<u8> = (0..SIZE).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let server = ImageServer::start(Ipv4Addr::LOCALHOST.into())
            .await
            .unwrap();
        server.give("/image", file.path());
        server.behave("/image", manner);
        Self {
            server,
            content,
            _file: file,
        }
    }

    async fn ask(&self, method: &str, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: images\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Head and body of an answer that ends with its connection.
    async fn whole(&self, method: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
        let headers = format!("Connection: close\r\n{headers}");
        let mut stream = self.ask(method, path, &headers).await;
        let mut answer = Vec::new();
        let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        end.unwrap().unwrap();
        split(&answer)
    }

    async fn tallied(&self, expected: impl Fn(Tally) -> bool) -> Tally {
        let tally = async {
            loop {
                let tally = self.server.tally("/image");
                if expected(tally) {
                    return tally;
                }
                yield_now().await;
            }
        };
        let tally = timeout(PATIENCE, tally).await;
        tally.unwrap_or_else(|_| panic!("{:?}", self.server.tally("/image")))
    }
}

fn split(answer: &[u8]) -> (String, Vec<u8>) {
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end..].to_vec())
}

/// The content of chunks, and whether the last one was there.
fn unchunked(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    loop {
        match httparse::parse_chunk_size(body) {
            Ok(httparse::Status::Complete((_, 0))) => return (content, body == b"0\r\n\r\n"),
            Ok(httparse::Status::Complete((head, size))) => {
                let size = usize::try_from(size).unwrap();
                content.extend(&body[head..head + size]);
                assert_eq!(&body[head + size..head + size + 2], b"\r\n");
                body = &body[head + size + 2..];
            }
            _ => return (content, false),
        }
    }
}

#[tokio::test]
async fn a_faultless_one_gives_the_file_and_counts() {
    let fixture = Fixture::new(Manner::default()).await;
    let url = format!("http://{}/image", fixture.server.address);
    assert_eq!(fixture.server.url("/image"), url);
    let (head, body) = fixture.whole("GET", "/image?x=1", "").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.contains(&format!("\r\nContent-Length: {SIZE}\r\n")),
        "{head}"
    );
    assert!(head.contains("\r\nAccept-Ranges: bytes\r\n"), "{head}");
    assert!(!head.contains("ETag"), "{head}");
    assert!(body == fixture.content);
    let (head, body) = fixture.whole("HEAD", "/image", "").await;
    assert!(
        head.contains(&format!("\r\nContent-Length: {SIZE}\r\n")),
        "{head}"
    );
    assert!(body.is_empty());
    let expected = Tally {
        gets: 1,
        others: 1,
        bytes: SIZE as u64,
        whole: 1,
        open: 0,
    };
    assert_eq!(fixture.tallied(|tally| tally.open == 0).await, expected);
    assert_eq!(fixture.server.tally("/other"), Tally::default());
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let fixture = Fixture::new(Manner::default()).await;
    let mut stream = fixture.ask("HEAD", "/image", "").await;
    let request = b"GET /none HTTP/1.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    let (first, rest) = split(&answers);
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert!(rest.starts_with(b"HTTP/1.1 404 "));
}

#[tokio::test]
async fn without_a_length_the_connection_ends_the_file() {
    let fixture = Fixture::new(Manner {
        framing: Framing::Close,
        ..Manner::default()
    })
    .await;
    let mut stream = fixture.ask("GET", "/image", "").await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let (head, body) = split(&answer);
    assert!(!head.contains("Content-Length"), "{head}");
    assert!(!head.contains("Transfer-Encoding"), "{head}");
    assert!(body == fixture.content);
}

#[tokio::test]
async fn chunks_end_with_the_last_one_unless_they_are_cut_off() {
    for cut_after in [None, Some(300_000)] {
        let fixture = Fixture::new(Manner {
            framing: Framing::Chunked,
            cut_after,
            ..Manner::default()
        })
        .await;
        let (head, body) = fixture.whole("GET", "/image", "").await;
        assert!(
            head.contains("\r\nTransfer-Encoding: chunked\r\n"),
            "{head}"
        );
        assert!(!head.contains("Content-Length"), "{head}");
        let (content, ended) = unchunked(&body);
        assert_eq!(ended, cut_after.is_none());
        assert!(content == fixture.content[..cut_after.map_or(SIZE, |_| 300_000)]);
    }
}

#[tokio::test]
async fn a_cut_off_file_is_shorter_than_its_length() {
    let fixture = Fixture::new(Manner {
        cut_after: Some(300_000),
        ..Manner::default()
    })
    .await;
    let (head, body) = fixture.whole("GET", "/image", "").await;
    assert!(
        head.contains(&format!("\r\nContent-Length: {SIZE}\r\n")),
        "{head}"
    );
    assert!(body == fixture.content[..300_000]);
    let tally = fixture.tallied(|tally| tally.open == 0).await;
    assert_eq!((tally.gets, tally.whole, tally.bytes), (1, 0, 300_000));
}

#[tokio::test]
async fn a_stalled_file_goes_on_when_it_is_told_to() {
    let fixture = Fixture::new(Manner {
        stall_after: Some(300_000),
        ..Manner::default()
    })
    .await;
    let mut stream = fixture.ask("GET", "/image", "Connection: close\r\n").await;
    let mut answer = vec![0; 300_000];
    stream.read_exact(&mut answer).await.unwrap();
    let tally = fixture.tallied(|tally| tally.bytes == 300_000).await;
    assert_eq!((tally.open, tally.whole), (1, 0));
    let nothing = timeout(Duration::from_millis(300), async {
        // What is left of the part before the stall, and then no end.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await
    });
    assert!(nothing.await.is_err());

    let mut stream = fixture.ask("GET", "/image", "Connection: close\r\n").await;
    fixture.tallied(|tally| tally.bytes == 600_000).await;
    fixture.server.behave("/image", Manner::default());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(split(&answer).1 == fixture.content);
}

#[tokio::test]
async fn one_who_leaves_a_stalled_file_is_noticed() {
    let fixture = Fixture::new(Manner {
        stall_after: Some(0),
        ..Manner::default()
    })
    .await;
    let stream = fixture.ask("GET", "/image", "").await;
    fixture.tallied(|tally| tally.open == 1).await;
    drop(stream);
    let tally = fixture.tallied(|tally| tally.open == 0).await;
    assert_eq!((tally.gets, tally.whole, tally.bytes), (1, 0, 0));
}

#[tokio::test]
async fn a_slow_one_takes_its_time() {
    let fixture = Fixture::new(Manner {
        speed: Some(SIZE as u64 * 2),
        ..Manner::default()
    })
    .await;
    let begin = std::time::Instant::now();
    let (_, body) = fixture.whole("GET", "/image", "").await;
    assert!(body == fixture.content);
    assert!(
        begin.elapsed() > Duration::from_millis(450),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_status_comes_without_a_file() {
    for status in [403, 404, 503] {
        let fixture = Fixture::new(Manner {
            status: Some(status),
            ..Manner::default()
        })
        .await;
        let (head, body) = fixture.whole("GET", "/image", "").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(body.is_empty());
        assert_eq!(fixture.server.tally("/image").bytes, 0);
    }
}

#[tokio::test]
async fn a_redirect_names_the_other_place() {
    let fixture = Fixture::new(Manner {
        redirect: Some("/elsewhere".into()),
        ..Manner::default()
    })
    .await;
    let (head, _) = fixture.whole("GET", "/image", "").await;
    assert!(head.starts_with("HTTP/1.1 302 "), "{head}");
    assert!(head.contains("\r\nLocation: /elsewhere\r\n"), "{head}");
}

#[tokio::test]
async fn ranges_are_given_unless_they_are_not_known_of() {
    let known = Fixture::new(Manner {
        etag: Some("\"a\"".into()),
        ..Manner::default()
    })
    .await;
    for (headers, status, part) in [
        ("Range: bytes=10-19\r\n", "206", 10..20),
        ("Range: bytes=600000-\r\n", "206", 600_000..SIZE),
        ("Range: bytes=-1\r\n", "206", SIZE - 1..SIZE),
        ("Range: bytes=5-700000\r\n", "206", 5..SIZE),
        ("Range: bytes=600001-\r\n", "416", 0..0),
        ("Range: bytes=5-\r\nIf-Range: \"a\"\r\n", "206", 5..SIZE),
        ("Range: bytes=5-\r\nIf-Range: \"b\"\r\n", "200", 0..SIZE),
    ] {
        let (head, body) = known.whole("GET", "/image", headers).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers}{head}"
        );
        assert!(body == known.content[part.clone()], "{headers}{head}");
        if status == "206" {
            let range = format!(
                "\r\nContent-Range: bytes {}-{}/{SIZE}\r\n",
                part.start,
                part.end - 1
            );
            assert!(head.contains(&range), "{headers}{head}");
        }
        assert_eq!(
            head.contains("\r\nETag: \"a\"\r\n"),
            status != "416",
            "{head}"
        );
    }
    let unknown = Fixture::new(Manner {
        no_ranges: true,
        ..Manner::default()
    })
    .await;
    let (head, body) = unknown
        .whole("GET", "/image", "Range: bytes=10-19\r\n")
        .await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(!head.contains("Accept-Ranges"), "{head}");
    assert!(body == unknown.content);
}

#[tokio::test]
async fn an_encoding_may_be_claimed() {
    let fixture = Fixture::new(Manner {
        encoding: Some("gzip".into()),
        ..Manner::default()
    })
    .await;
    let (head, body) = fixture.whole("GET", "/image", "").await;
    assert!(head.contains("\r\nContent-Encoding: gzip\r\n"), "{head}");
    assert!(body == fixture.content);
}
