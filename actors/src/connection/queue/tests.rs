//! The queue beside a list that is searched from its beginning.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Act {
    Push(Option<u8>, u64),
    Take,
    /// The `n`th of those under way.
    Done(usize),
    Pass(u64),
    /// Those whose number is a multiple are unwanted.
    Retain(u32),
    Drain,
    Abandon,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (proptest::option::of(0..3u8), 0..60u64).prop_map(|(key, secs)| Act::Push(key, secs)),
        6 => Just(Act::Take),
        4 => (0..8usize).prop_map(Act::Done),
        2 => (0..20u64).prop_map(Act::Pass),
        1 => (2..5u32).prop_map(Act::Retain),
        1 => Just(Act::Drain),
        1 => Just(Act::Abandon),
    ]
}

/// The same, as it would be said.
#[derive(Default)]
struct Model {
    waiting: Vec<(u32, Option<u8>, Instant)>,
    under_way: Vec<(Epoch, Option<u8>)>,
}

impl Model {
    fn next(&self) -> Option<usize> {
        let free = |key: &Option<u8>| {
            let busy = self.under_way.iter().any(|(_, other)| other == key);
            key.is_none() || !busy
        };
        self.waiting.iter().position(|(_, key, _)| free(key))
    }

    fn remove(&mut self, gone: impl Fn(u32, Instant) -> bool) -> Vec<u32> {
        let (out, kept) = self.waiting.drain(..).partition(|(n, _, at)| gone(*n, *at));
        self.waiting = kept;
        let out: Vec<(u32, Option<u8>, Instant)> = out;
        out.into_iter().map(|(n, ..)| n).collect()
    }
}

/// Nothing is under way any more.
fn end_all(queue: &mut Queue<u32>) {
    let tickets: Vec<_> = queue.under_way.keys().copied().collect();
    for ticket in tickets {
        queue.done(ticket);
    }
}

proptest! {
    #[test]
    fn who_is_next_is_the_first_whose_key_is_free(acts in prop::collection::vec(act(), 1..200)) {
        const LIMIT: usize = 12;
        let (mut queue, mut model, mut now) = (Queue::new(LIMIT), Model::default(), Instant::now());
        for (n, act) in (0u32..).zip(acts) {
            match act {
                Act::Push(key, secs) => {
                    let full = model.waiting.len() + model.under_way.len() >= LIMIT;
                    let deadline = now + Duration::from_secs(secs);
                    let pushed = queue.push(n, key.map(|k| k.to_string()), deadline);
                    prop_assert_eq!(pushed, if full { Err(n) } else { Ok(()) });
                    if !full {
                        model.waiting.push((n, key, deadline));
                    }
                }
                Act::Take => {
                    let taken = queue.take();
                    let next = model.next().map(|at| model.waiting.remove(at));
                    prop_assert_eq!(taken.map(|(_, n)| n), next.map(|(n, ..)| n));
                    if let (Some((ticket, _)), Some((_, key, _))) = (taken, next) {
                        model.under_way.push((ticket, key));
                    }
                }
                Act::Done(at) if at < model.under_way.len() => {
                    let (ticket, _) = model.under_way.remove(at);
                    queue.done(ticket);
                    // Once more, which is late.
                    queue.done(ticket);
                }
                Act::Done(_) => queue.done(Epoch::next()),
                Act::Pass(secs) => {
                    now += Duration::from_secs(secs);
                    let mut late = queue.overdue(now);
                    late.sort_unstable();
                    prop_assert_eq!(late, model.remove(|_, at| at <= now));
                }
                Act::Retain(of) => {
                    queue.retain(|n| n % of != 0);
                    model.remove(|n, _| n % of == 0);
                }
                Act::Drain => prop_assert_eq!(queue.drain(), model.remove(|_, _| true)),
                Act::Abandon => {
                    end_all(&mut queue);
                    model.under_way.clear();
                }
            }
            let first = model.waiting.iter().map(|(_, _, at)| *at).min();
            prop_assert_eq!(queue.next_deadline(), first);
            prop_assert_eq!(queue.first().copied(), model.waiting.first().map(|first| first.0));
        }
        queue.drain();
        end_all(&mut queue);
        let left = (queue.ready.len(), queue.deadlines.len(), queue.lines.len());
        prop_assert_eq!(left, (0, 0, 0), "something is kept of what is gone");
    }
}
