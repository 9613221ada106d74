//! What one candidate decides, step by step.

use super::*;
use crate::leader::standing::{Office, Past};

const SECOND: Duration = Duration::from_secs(1);
const PACE: Pace = Pace::DEFAULT;

fn elector(name: &str) -> Elector {
    elector_from(name, || 0)
}

fn elector_from(name: &str, first: fn() -> u64) -> Elector {
    let me = Candidate {
        identity: name.to_owned(),
        address: format!("{name}:1"),
    };
    Elector::new(me, PACE, None, first)
}

fn seen(version: u64, holder: Option<&str>, fence: u64) -> Seen {
    Seen {
        version: Version(version.to_string()),
        record: Record {
            holder: holder.map(str::to_owned),
            address: holder.map(|name| format!("{name}:1")),
            duration: PACE.duration(),
            fence,
        },
    }
}

/// The change that is asked for at once.
#[track_caller]
fn change(next: Next) -> Change {
    assert_eq!(next.after, Duration::ZERO);
    match next.ask {
        Ask::Write(change) => change,
        Ask::Read => panic!("reads instead of writing"),
    }
}

fn summary(change: &Change) -> (Option<&str>, u64, Option<&str>, bool) {
    let on = change.on.as_ref().map(|Version(on)| &**on);
    let holder = change.record.holder.as_deref();
    (holder, change.record.fence, on, change.begins)
}

fn done(version: u64) -> Written {
    Written::Done(Version(version.to_string()))
}

const LATER: Next = Next {
    ask: Ask::Read,
    after: PACE.looks,
};

#[test]
fn a_record_that_is_free_is_taken_at_once() {
    let now = Instant::now();
    let first = change(elector("a").heard(now, None));
    assert_eq!(summary(&first), (Some("a"), 0, None, true));
    let given_back = change(elector("a").heard(now, Some(seen(7, None, 3))));
    assert_eq!(summary(&given_back), (Some("a"), 4, Some("7"), true));
    assert_eq!(given_back.record.duration, 15 * SECOND);
    assert_eq!(given_back.record.address.as_deref(), Some("a:1"));
}

#[test]
fn a_tenure_counts_from_before_it_was_asked_for() {
    let mut a = elector("a");
    let sent = Instant::now();
    let first = change(a.heard(sent, None));
    let now = sent + 2 * SECOND;
    let next = a.wrote(sent, now, first, done(1));
    let until = sent + 10 * SECOND;
    assert_eq!(a.tenure(now), Some(Tenure { fence: 0, until }));
    assert_eq!(a.tenure(until), None);
    // The answer took as long as the pause until the next.
    let renewal = change(next);
    assert_eq!(summary(&renewal), (Some("a"), 0, Some("1"), false));
    let next = a.wrote(now, now, renewal, done(2));
    assert_eq!(next.after, PACE.renews);
    let until = now + 10 * SECOND;
    assert_eq!(a.tenure(now), Some(Tenure { fence: 0, until }));
}

#[test]
fn another_holder_is_followed_until_it_was_silent_for_its_duration() {
    let (mut b, begun) = (elector("b"), Instant::now());
    for second in 0..15 {
        let now = begun + second * SECOND;
        assert_eq!(
            b.heard(now, Some(seen(5, Some("a"), 2))),
            LATER,
            "{second} s"
        );
        assert_eq!(b.leader().map(|record| record.fence), Some(2));
    }
    let take = change(b.heard(begun + 15 * SECOND, Some(seen(5, Some("a"), 2))));
    assert_eq!(summary(&take), (Some("b"), 3, Some("5"), true));
}

#[test]
fn any_change_is_a_sign_of_life() {
    let (mut b, begun) = (elector("b"), Instant::now());
    for second in 0..60 {
        let now = begun + second * SECOND;
        let version = u64::from(second / 14);
        assert_eq!(b.heard(now, Some(seen(version, Some("a"), 2))), LATER);
    }
}

#[test]
fn what_could_not_be_heard_is_no_silence() {
    let (mut b, begun) = (elector("b"), Instant::now());
    let at = |seconds| begun + seconds * SECOND;
    assert_eq!(b.heard(at(0), Some(seen(5, Some("a"), 2))), LATER);
    assert_eq!(b.heard(at(4), Some(seen(5, Some("a"), 2))), LATER);
    // The API server was away, or this process was frozen.
    assert_eq!(b.unanswered(), LATER);
    for second in 100..111 {
        assert_eq!(b.heard(at(second), Some(seen(5, Some("a"), 2))), LATER);
    }
    change(b.heard(at(111), Some(seen(5, Some("a"), 2))));
}

#[test]
fn a_record_that_vanished_is_no_sign_of_its_holders_end() {
    let (mut b, begun) = (elector("b"), Instant::now());
    let at = |seconds| begun + seconds * SECOND;
    assert_eq!(b.heard(at(0), Some(seen(5, Some("a"), 2))), LATER);
    for second in 1..15 {
        assert_eq!(b.heard(at(second), None), LATER);
    }
    let take = change(b.heard(at(15), None));
    assert_eq!(summary(&take), (Some("b"), 3, None, true));

    let mut a = elector("a");
    let first = change(a.heard(at(0), None));
    a.wrote(at(0), at(0), first, done(1));
    let again = change(a.heard(at(1), None));
    assert_eq!(summary(&again), (Some("a"), 1, None, true));
}

/// Else its maker would take the next tenure for one that follows its own.
#[test]
fn a_record_that_is_made_anew_does_not_count_on_from_an_earlier_one() {
    let (now, office) = (Instant::now(), Office::default());
    let first = change(elector_from("a", || 1000).heard(now, None));
    assert_eq!(summary(&first), (Some("a"), 1000, None, true));
    office.leads(first.record.fence, None);
    // Deleted; another makes it, and gives it back.
    let second = change(elector_from("b", || 1060).heard(now, None));
    let mut a = elector_from("a", || 1090);
    let third = change(a.heard(now, Some(seen(2, None, second.record.fence))));
    assert_eq!(summary(&third), (Some("a"), 1061, Some("2"), true));
    assert_eq!(office.past(third.record.fence), Past::Over);

    // Nor when it was deleted twice, and the one in between was never seen.
    let mut a = elector_from("a", || 1090);
    a.heard(now, Some(seen(1, Some("a"), 1000)));
    let again = change(a.heard(now, None));
    assert_eq!(summary(&again), (Some("a"), 1090, None, true));
    assert_eq!(office.past(again.record.fence), Past::Over);
}

#[test]
fn who_was_faster_is_followed() {
    let (mut a, now) = (elector("a"), Instant::now());
    let first = change(a.heard(now, None));
    assert_eq!(a.wrote(now, now, first, Written::Conflict), LATER);
    assert_eq!(a.tenure(now), None);
    assert_eq!(a.heard(now, Some(seen(1, Some("b"), 0))), LATER);
}

#[test]
fn a_lost_answer_is_looked_up_and_counts_only_when_written_again() {
    let (mut a, begun) = (elector("a"), Instant::now());
    change(a.heard(begun, None));
    assert_eq!(a.unanswered(), LATER);
    assert_eq!(a.tenure(begun), None);
    // It was done.
    let renewal = change(a.heard(begun, Some(seen(1, Some("a"), 0))));
    assert_eq!(summary(&renewal), (Some("a"), 0, Some("1"), false));
    assert_eq!(a.tenure(begun), None);
    a.wrote(begun, begun, renewal, done(2));
    assert!(a.tenure(begun).is_some());
}

#[test]
fn a_leader_whose_record_was_touched_looks_and_goes_on() {
    let (mut a, now) = (elector("a"), Instant::now());
    let first = change(a.heard(now, None));
    let Ask::Write(renewal) = a.wrote(now, now, first, done(1)).ask else {
        panic!("renews");
    };
    let next = a.wrote(now, now, renewal, Written::Conflict);
    assert_eq!(next, at_once(Ask::Read));
    assert!(a.tenure(now).is_some());
    let renewal = change(a.heard(now, Some(seen(9, Some("a"), 0))));
    assert_eq!(summary(&renewal), (Some("a"), 0, Some("9"), false));
}

#[test]
fn a_leader_that_reads_of_another_is_none() {
    let (mut a, now) = (elector("a"), Instant::now());
    let first = change(a.heard(now, None));
    a.wrote(now, now, first, done(1));
    assert_eq!(a.heard(now, Some(seen(3, Some("b"), 1))), LATER);
    assert_eq!(a.tenure(now), None);
    assert_eq!(a.leader().and_then(|r| r.holder.as_deref()), Some("b"));
}

#[test]
fn only_what_is_ones_own_is_given_back() {
    let a = elector("a");
    let mine = seen(4, Some("a"), 2);
    let change = a.resign(mine).expect("is its own");
    assert_eq!(summary(&change), (None, 2, Some("4"), false));
    assert_eq!(change.record.address, None);
    for other in [seen(4, Some("b"), 2), seen(4, None, 2)] {
        assert_eq!(a.resign(other), None);
    }
}
