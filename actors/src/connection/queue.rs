//! Who is served next. Pure: what waits, what is under way, and which of them must not overlap.

use crate::system::Epoch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::Instant;

/// Requests that wait or are under way.
pub(super) struct Queue<R> {
    limit: usize,
    /// By ticket, which is the order of arrival.
    waiting: BTreeMap<Epoch, Waiting<R>>,
    /// Of those that wait: nobody with their key is before them.
    ready: BTreeSet<Epoch>,
    deadlines: BTreeSet<(Instant, Epoch)>,
    /// By key, as long as anybody has it.
    lines: HashMap<String, Line>,
    under_way: HashMap<Epoch, Option<String>>,
}

struct Waiting<R> {
    request: R,
    key: Option<String>,
    deadline: Instant,
}

#[derive(Default)]
struct Line {
    busy: bool,
    waiting: BTreeSet<Epoch>,
}

impl<R> Queue<R> {
    /// An empty one that holds at most `limit`, those under way included.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            waiting: BTreeMap::new(),
            ready: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            lines: HashMap::new(),
            under_way: HashMap::new(),
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() + self.under_way.len() >= self.limit
    }

    /// The one that has waited longest.
    pub fn first(&self) -> Option<&R> {
        let (_, first) = self.waiting.first_key_value()?;
        Some(&first.request)
    }

    /// Takes a request in, to wait until `deadline` at most.
    ///
    /// # Errors
    /// The request, when there is no room for it.
    pub fn push(&mut self, request: R, key: Option<String>, deadline: Instant) -> Result<(), R> {
        if self.is_full() {
            return Err(request);
        }
        let ticket = Epoch::next();
        self.deadlines.insert((deadline, ticket));
        match &key {
            Some(key) => {
                let line = self.lines.entry(key.clone()).or_default();
                line.waiting.insert(ticket);
                self.advance(key);
            }
            None => {
                self.ready.insert(ticket);
            }
        }
        let waiting = Waiting {
            request,
            key,
            deadline,
        };
        self.waiting.insert(ticket, waiting);
        Ok(())
    }

    /// The next one to serve, which is under way from here on.
    pub fn take(&mut self) -> Option<(Epoch, R)> {
        let ticket = self.ready.pop_first()?;
        let next = self.waiting.remove(&ticket)?;
        self.deadlines.remove(&(next.deadline, ticket));
        if let Some(line) = next.key.as_ref().and_then(|key| self.lines.get_mut(key)) {
            line.waiting.remove(&ticket);
            line.busy = true;
        }
        self.under_way.insert(ticket, next.key);
        Some((ticket, next.request))
    }

    /// One under way has ended; nothing happens if it is not known any more.
    pub fn done(&mut self, ticket: Epoch) {
        if let Some(Some(key)) = self.under_way.remove(&ticket) {
            if let Some(line) = self.lines.get_mut(&key) {
                line.busy = false;
            }
            self.advance(&key);
        }
    }

    /// When the first of those that wait has waited long enough.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out those that have waited long enough.
    pub fn overdue(&mut self, now: Instant) -> Vec<R> {
        let mut late = Vec::new();
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            late.extend(self.remove(ticket));
        }
        late
    }

    /// Takes out all that wait, in the order of their arrival.
    pub fn drain(&mut self) -> Vec<R> {
        let tickets: Vec<_> = self.waiting.keys().copied().collect();
        let drained = tickets.into_iter().filter_map(|ticket| self.remove(ticket));
        drained.collect()
    }

    /// Forgets those that wait and are not wanted.
    pub fn retain(&mut self, wanted: impl Fn(&R) -> bool) {
        let all = self.waiting.iter();
        let unwanted = all.filter(|(_, waiting)| !wanted(&waiting.request));
        let tickets: Vec<_> = unwanted.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            self.remove(ticket);
        }
    }

    fn remove(&mut self, ticket: Epoch) -> Option<R> {
        let gone = self.waiting.remove(&ticket)?;
        self.deadlines.remove(&(gone.deadline, ticket));
        self.ready.remove(&ticket);
        if let Some(key) = gone.key {
            if let Some(line) = self.lines.get_mut(&key) {
                line.waiting.remove(&ticket);
            }
            self.advance(&key);
        }
        Some(gone.request)
    }

    /// The first of a line is ready when none of it is under way; an empty line is forgotten.
    fn advance(&mut self, key: &str) {
        let Some(line) = self.lines.get(key).filter(|line| !line.busy) else {
            return;
        };
        match line.waiting.first() {
            Some(first) => {
                self.ready.insert(*first);
            }
            None => {
                self.lines.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
