//! Taking up what a journal holds.

use super::{
    Ledger,
    book::{Book, Ended, Lease},
    slots::SlotId,
};
use crate::leases::{
    journal::{Entry, Holder, Record},
    now::{Deadline, Now},
    terms::{Candidate, LeaseId, Terms},
};
use std::{collections::HashMap, panic::resume_unwind, sync::Arc, thread, time::Duration};

/// A lease that lives no more.
struct Past {
    id: LeaseId,
    of: Arc<Holder>,
    target: Option<Arc<str>>,
    until: Duration,
}

impl Ledger {
    /// The ledger that wrote `records`, with the proxies of `pool`, each once; others are upserted as the fleet
    /// finds them again, and the leases count against their slots from then on. Records that are past their end are
    /// named in [`Ledger::take_entries`].
    #[must_use]
    pub fn restore(
        terms: Terms,
        records: Vec<Record>,
        mut pool: Vec<Arc<Candidate>>,
        now: Now,
    ) -> Self {
        let mut ledger = Self::new(terms);
        let window = terms.report_window();
        let mut past = Vec::new();
        let mut live = Vec::with_capacity(records.len());
        // Records of one incarnation share its holder, and to compare pointers is far cheaper than names. All of
        // them are kept alive by `records` or by the slot, so that no pointer comes to mean another.
        let mut known = HashMap::<*const Holder, SlotId>::new();
        for record in records {
            let key = record.key();
            let over = match record {
                Record::Lease {
                    id,
                    of,
                    target,
                    ttl,
                    ends,
                    idempotency,
                } => {
                    let resumed = ends.resumed(now);
                    if resumed.mono > now.mono {
                        let slot = *known
                            .entry(Arc::as_ptr(&of))
                            .or_insert_with(|| ledger.index.slots.of_shared(&of));
                        let scope = ledger.targets.hold(target.as_ref());
                        ledger.index.take(slot, &ledger.cooldowns);
                        let lease = Lease {
                            slot,
                            scope,
                            ttl,
                            ends: resumed.mono,
                            expires_at: resumed.wall,
                            idempotency,
                        };
                        live.push((id, lease));
                        false
                    } else {
                        let until = ends.extended(window).resumed(now);
                        ledger.look_back(&mut past, id, of, target, until, now)
                    }
                }
                Record::Ended {
                    id,
                    of,
                    target,
                    until,
                } => ledger.look_back(&mut past, id, of, target, until.resumed(now), now),
                Record::Cooldown { of, target, until } => {
                    let until = until.resumed(now);
                    let over = until.mono <= now.mono;
                    if !over {
                        let slot = ledger.index.slots.of(&of);
                        let scope = ledger.targets.hold(target.as_ref());
                        ledger.rest(slot, scope, until);
                    }
                    over
                }
            };
            if over {
                ledger.entries.push(Entry::Drop(key));
            }
        }
        // All who wait for a lease wait for this, so it is done by two.
        thread::scope(|scope| {
            let book = scope.spawn(|| Book::of(live));
            pool.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            ledger.index.fill(pool);
            ledger.book = book.join().unwrap_or_else(|panic| resume_unwind(panic));
        });
        // They are forgotten in this order.
        past.sort_unstable_by_key(|past: &Past| (past.until, past.id));
        for Past {
            id,
            of,
            target,
            until,
        } in past
        {
            let slot = ledger.index.slots.of(&of);
            let scope = ledger.targets.hold(target.as_ref());
            ledger.index.slots[slot].ended += 1;
            ledger.book.keep(id, Ended { slot, scope }, until);
        }
        ledger
    }

    /// Whether the report window of an ended lease is over too; else it is one of the `past`. Not more than today's
    /// window is left, so that the leases which end from now on are forgotten later.
    fn look_back(
        &self,
        past: &mut Vec<Past>,
        id: LeaseId,
        of: Arc<Holder>,
        target: Option<Arc<str>>,
        until: Deadline,
        now: Now,
    ) -> bool {
        let latest = now.mono.saturating_add(self.terms.report_window());
        let until = until.mono.min(latest);
        let over = until <= now.mono;
        if !over {
            past.push(Past {
                id,
                of,
                target,
                until,
            });
        }
        over
    }
}
