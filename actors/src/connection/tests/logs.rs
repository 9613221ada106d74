//! What the log says of a connection.

use super::*;
use std::{
    fmt::Debug,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Level, message and fields of what this thread logs about connections.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        use std::fmt::Write;
        let name = field.name();
        let written = match name {
            "message" => write!(self.0, "{value:?}"),
            _ => write!(self.0, " {name}={value:?}"),
        };
        written.expect("is text");
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target() == "actors::connection"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        static LAST: AtomicU64 = AtomicU64::new(1);
        span::Id::from_u64(LAST.fetch_add(1, Relaxed))
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let line = (*event.metadata().level(), line.0);
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

impl Log {
    fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_warning_once_and_again_when_its_reason_changes() {
    let log = Log::default();
    let _here = tracing::subscriber::set_default(log.clone());
    // With a single subscriber tracing would ask each thread for its own whether anybody wants a
    // line, and the threads of other tests have none.
    let _second = tracing::Dispatch::new(log.clone());
    let b = bench().await;
    let says = |level, what: &str| (level, format!("{what} connection=\"{PATH}\""));
    let cannot = |level, why: &str| {
        let (level, line) = says(level, "cannot connect");
        (level, format!("{line} error={why:?}"))
    };
    let last = b.ask(Ask::new(0).patience(3600 * SECOND));
    for why in ["refused", "no route", "refused"] {
        b.link.dials(Dial::Fails(why));
        let before = b.link.dialled();
        until("failed", || b.link.dialled() >= before + 3).await;
        let lines = log.take();
        let new = lines
            .iter()
            .find(|line| line.1.ends_with(&format!("{why:?}")));
        assert_eq!(new, Some(&cannot(Level::WARN, why)));
        let again = lines
            .iter()
            .filter(|line| **line == cannot(Level::DEBUG, why));
        assert!(again.count() >= 1, "{lines:?}");
        let warnings = lines.iter().filter(|line| line.0 == Level::WARN);
        assert_eq!(warnings.count(), 1, "{lines:?}");
    }
    b.link.dials(Dial::Succeeds);
    assert_eq!(last.await.unwrap(), Ok(Ok(0)));
    log.take();
    b.link.lose("reset by peer");
    until("closed", || b.link.closed(0)).await;
    let (level, line) = says(Level::WARN, "connection lost");
    let line = format!("{line} error=reset by peer seconds=0");
    assert_eq!(log.take(), [(level, line)]);

    b.open().await;
    assert_eq!(log.take(), [says(Level::INFO, "connected")]);
}
