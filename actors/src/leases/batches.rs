//! From a change to its answer: it is in the journal first, with all others that gathered while the journal wrote.

use super::{LeasesActor, LeasesMsg, broken, journal::JournalError};
use crate::system::{Addr, Broken, Reply};
use futures::FutureExt;
use std::sync::Arc;

impl LeasesActor {
    /// Answers once what the ledger changed is in the journal.
    pub(super) fn answer<R: Send + 'static>(
        &mut self,
        reply: Reply<R>,
        answer: R,
        me: &Addr<LeasesMsg>,
    ) -> Result<(), Broken> {
        // Whoever asked may have given up; that is its affair.
        self.settle(move || drop(reply.send(answer)), me)
    }

    pub(super) fn settle(
        &mut self,
        answer: impl FnOnce() + Send + 'static,
        me: &Addr<LeasesMsg>,
    ) -> Result<(), Broken> {
        let entries = self.ledger.take_entries();
        if self.append.is_under_way() {
            self.entries.extend(entries);
            self.waiting.push(Box::new(answer));
            return Ok(());
        }
        if entries.is_empty() {
            answer();
            return Ok(());
        }
        let (journal, writer) = (Arc::clone(&self.deps.journal), self.writer);
        let mut append = Box::pin(async move { journal.append(writer, entries).await });
        // A journal in memory is done at once, and then neither a task nor a message is needed.
        match (&mut append).now_or_never() {
            Some(Ok(())) => answer(),
            Some(Err(error)) => return Err(broken(&error)),
            None => {
                self.under_way.push(Box::new(answer));
                self.append_in_task(append, me);
            }
        }
        Ok(())
    }

    fn append_in_task(
        &mut self,
        append: impl Future<Output = Result<(), JournalError>> + Send + 'static,
        me: &Addr<LeasesMsg>,
    ) {
        let me = me.clone();
        self.append.start(|epoch| async move {
            let result = append.await;
            me.hint(LeasesMsg::Journalled(epoch, result));
        });
    }

    pub(super) fn journalled(
        &mut self,
        result: Result<(), JournalError>,
        me: &Addr<LeasesMsg>,
    ) -> Result<(), Broken> {
        result.map_err(|error| broken(&error))?;
        for answer in self.under_way.drain(..) {
            answer();
        }
        if self.entries.is_empty() {
            for answer in self.waiting.drain(..) {
                answer();
            }
            return Ok(());
        }
        self.under_way = std::mem::take(&mut self.waiting);
        let (journal, writer) = (Arc::clone(&self.deps.journal), self.writer);
        let entries = std::mem::take(&mut self.entries);
        self.append_in_task(async move { journal.append(writer, entries).await }, me);
        Ok(())
    }
}
