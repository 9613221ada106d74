//! Lines on their way to a pipe that may be slow, full or closed.
//!
//! Whoever logs only appends to a queue. One thread writes; it ignores errors (a log that nobody
//! reads is no reason to end) and reports how many lines did not fit once there is room again.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

/// How much waits to be written before lines are dropped: some 20 000 lines, in a container of
/// 128 MiB.
const QUEUE_BYTES: usize = 4 << 20;
/// How long the end of the program waits for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

#[derive(Default)]
struct Counts {
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// The queue's open end; clones feed the same queue.
#[derive(Clone)]
pub struct Lines {
    queue: Sender<Item>,
    counts: Arc<Counts>,
}

/// Writes out what is queued when it is dropped, for a second at most.
pub struct Flush(Sender<Item>);

impl Lines {
    /// Starts the thread that writes to `sink`; `notice` words how many lines were lost.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        sink: impl Write + Send + 'static,
        notice: fn(u64) -> String,
    ) -> io::Result<(Self, Flush)> {
        let (queue, items) = mpsc::channel();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        thread::Builder::new()
            .name("log".into())
            .spawn(move || write_out(&items, sink, &shared, notice))?;
        let flush = Flush(queue.clone());
        Ok((Self { queue, counts }, flush))
    }

    /// Queues one line, its end included, or drops it when too much is waiting.
    pub fn send(&self, line: Vec<u8>) {
        let size = line.len();
        let before = self.counts.queued_bytes.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > QUEUE_BYTES {
            self.counts.queued_bytes.fetch_sub(size, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The thread only ends with the queue itself.
        self.queue.send(Item::Line(line)).ok();
    }
}

fn write_out(
    items: &Receiver<Item>,
    mut sink: impl Write,
    counts: &Counts,
    notice: fn(u64) -> String,
) {
    for item in items {
        match item {
            Item::Line(line) => {
                sink.write_all(&line).ok();
                counts.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                let dropped = counts.dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    sink.write_all(notice(dropped).as_bytes()).ok();
                }
            }
            Item::Flush(done) => {
                sink.flush().ok();
                done.send(()).ok();
            }
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, flushed) = mpsc::channel();
        if self.0.send(Item::Flush(done)).is_ok() {
            flushed.recv_timeout(PATIENCE).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader is the test: each write waits until the test takes it.
    struct Slow(mpsc::SyncSender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0
                .send(line.to_vec())
                .map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice(count: u64) -> String {
        format!("lost {count}")
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_no_time() {
        let (pipe, reader) = mpsc::sync_channel(0);
        let (lines, flush) = Lines::start(Slow(pipe), notice).expect("a thread");
        let mebibyte = || vec![b'x'; 1 << 20];
        for _ in 0..7 {
            lines.send(mebibyte());
        }
        // Four fit; whatever the thread has taken up counts until it is written.
        assert_eq!(reader.recv().expect("a line").len(), 1 << 20);
        assert_eq!(reader.recv().expect("the notice"), b"lost 3");
        for _ in 0..3 {
            assert_eq!(reader.recv().expect("a line").len(), 1 << 20);
        }
        lines.send(b"again\n".to_vec());
        assert_eq!(reader.recv().expect("a line"), b"again\n");
        drop(flush);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let (pipe, reader) = mpsc::sync_channel(0);
        let (lines, flush) = Lines::start(Slow(pipe), notice).expect("a thread");
        drop(reader);
        lines.send(b"nobody reads this".to_vec());
        drop(flush);
        assert_eq!(lines.counts.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_end_waits_for_what_is_under_way() {
        let (pipe, reader) = mpsc::sync_channel(100);
        let (lines, flush) = Lines::start(Slow(pipe), notice).expect("a thread");
        for _ in 0..100 {
            lines.send(b"line\n".to_vec());
        }
        drop(flush);
        assert_eq!(reader.try_iter().count(), 100);
    }
}
