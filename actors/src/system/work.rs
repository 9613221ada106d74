//! Slow work: a task beside the actor that started it.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Which start of which work a result belongs to. Never given out twice in a process, so that a late
/// result can neither be taken for a newer one nor reach a successor of the actor that wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The next one.
    #[must_use]
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Relaxed) + 1)
    }

    /// As a number, for people.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// One piece of slow work at a time: an operation under way, or a timer. A newer one aborts the
/// older; dropping it aborts too, and since an actor's state is dropped even when it is killed,
/// nothing survives its owner.
#[derive(Debug, Default)]
pub struct Work(Option<(Epoch, AbortOnDropHandle<()>)>);

impl Work {
    /// Starts `task`, which sends its result as a message that carries the epoch. It runs outside of
    /// every span: a timer that were part of what was under way when it was set would never let go of it.
    pub fn start<F>(&mut self, task: impl FnOnce(Epoch) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let epoch = Epoch::next();
        let handle = AbortOnDropHandle::new(tokio::spawn(task(epoch)));
        self.0 = Some((epoch, handle));
    }

    /// Starts `task` as a part of the work that the current span stands for.
    pub fn start_within<F>(&mut self, task: impl FnOnce(Epoch) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(|epoch| task(epoch).in_current_span());
    }

    /// Takes the result of `epoch` in: true, once, if it is the work under way; false if it is late.
    pub fn finish(&mut self, epoch: Epoch) -> bool {
        let current = self
            .0
            .as_ref()
            .is_some_and(|(under_way, _)| *under_way == epoch);
        if current {
            self.0 = None;
        }
        current
    }

    /// Whether anything is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Ends what is under way, whose result will be late.
    pub fn abort(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{mpsc, oneshot};

    #[tokio::test]
    async fn a_result_counts_once_and_only_for_the_newest_start() {
        let (tx, mut results) = mpsc::unbounded_channel();
        let mut work = Work::default();
        let start = |work: &mut Work| {
            let tx = tx.clone();
            work.start(|epoch| async move {
                tx.send(epoch).ok();
            });
        };
        start(&mut work);
        let old = results.recv().await.expect("a result");
        start(&mut work);
        let new = results.recv().await.expect("a result");
        assert!(!work.finish(old), "a late result was taken");
        assert!(work.finish(new));
        assert!(!work.finish(new), "a result was taken twice");
        assert!(!work.is_under_way());
    }

    #[tokio::test]
    async fn dropping_the_owner_ends_the_task() {
        let (alive, ended) = oneshot::channel::<()>();
        let mut work = Work::default();
        work.start(|_| async move {
            let _held = alive;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        drop(work);
        assert!(ended.await.is_err());
    }
}
