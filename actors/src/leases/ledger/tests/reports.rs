//! What a report does.

use super::*;

#[test]
fn a_report_cools_its_target_or_the_leases_or_everything() {
    let (x, y) = (for_target("x.example"), for_target("y.example"));
    for (taken_for, said, blocked, free) in [
        (any(), Some("x.example"), vec![&x], vec![y.clone(), any()]),
        (
            y.clone(),
            Some("x.example"),
            vec![&x],
            vec![y.clone(), any()],
        ),
        (x.clone(), None, vec![&x], vec![y.clone(), any()]),
        (any(), None, vec![&x, &y], vec![]),
    ] {
        let mut desk = desk([slots(9, proxy("a"))]);
        let lease = desk.lease(&taken_for);
        desk.report(&lease, RateLimited, said).unwrap();
        for request in blocked {
            assert_eq!(
                desk.denial(request),
                denied(1, 0, 0, 1),
                "{taken_for:?} {said:?} {request:?}"
            );
        }
        for request in free {
            assert_eq!(
                desk.gets(&request),
                "a",
                "{taken_for:?} {said:?} {request:?}"
            );
        }
    }
}

#[test]
fn a_cooldown_lasts_as_long_as_its_reason_and_is_never_shortened() {
    for (reports, lasts) in [
        (&[Fine][..], 0),
        (&[RateLimited], LIMITED),
        (&[Banned], BANNED),
        (&[RateLimited, Banned], BANNED),
        (&[Banned, RateLimited, Fine], BANNED),
    ] {
        let mut desk = desk([slots(9, proxy("a"))]);
        let lease = desk.lease(&for_target("x.example"));
        for report in reports {
            desk.report(&lease, *report, None).unwrap();
        }
        assert_eq!(desk.ledger.cooldowns_active(), usize::from(lasts > 0));
        if lasts > 0 {
            desk.wait(lasts - 1);
            assert_eq!(
                desk.denial(&for_target("x.example")),
                denied(1, 0, 0, 1),
                "{reports:?}"
            );
            desk.wait(1);
        }
        assert_eq!(desk.gets(&for_target("x.example")), "a", "{reports:?}");
        assert_eq!(desk.ledger.cooldowns_active(), 0);
    }
}

#[test]
fn an_ended_lease_can_be_reported_on_for_one_window() {
    for released in [true, false] {
        let mut desk = desk([proxy("a")]);
        let lease = desk.lease(&for_target("x.example"));
        desk.wait(TTL - 1);
        if released {
            desk.release(&lease);
        } else {
            desk.wait(1);
        }
        desk.wait(BANNED - 1);
        assert_eq!(desk.report(&lease, RateLimited, None), Ok(()));
        assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
        desk.wait(1);
        assert_eq!(desk.report(&lease, Fine, None), Err(UnknownLease));
    }
}

#[test]
fn many_targets_leave_no_memory_behind() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    for n in 0..10_000 {
        desk.report(&lease, Banned, Some(&format!("{n}.example")))
            .unwrap();
    }
    assert_eq!(desk.ledger.cooldowns_active(), 10_000);
    desk.wait(TTL + BANNED);
    desk.ledger.expire(desk.now);
    desk.ledger.remove(&lease.key);
    assert!(desk.ledger.is_blank());
}
