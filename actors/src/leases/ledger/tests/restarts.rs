//! What is known again.

use super::*;

#[test]
fn a_restart_knows_what_was_granted_and_not_what_was_released() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let released = desk.lease(&any());
    desk.release(&released);
    let (lease, _) = desk.keyed(&for_target("x.example"));
    desk.report(&lease, RateLimited, Some("y.example")).unwrap();
    desk.wait(50);
    desk.restart();
    assert!(desk.is_live(&lease), "before its proxy is");
    assert!(!desk.is_live(&released));
    desk.set(slots(2, proxy("a")));
    let (again, granted) = desk.keyed(&for_target("x.example"));
    assert_eq!(
        (again.id, again.expires_at, granted),
        (lease.id, lease.expires_at, Granted::Repeated)
    );
    assert_eq!(again.target.as_deref(), Some("x.example"));
    assert_eq!(desk.ask(&any(), Some("key")), Err(KeyReused));
    assert_eq!(desk.denial(&for_target("y.example")), denied(1, 0, 0, 1));
    assert_eq!(desk.gets(&any()), "a");
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0), "capacity is right");
    assert_eq!(desk.report(&released, Fine, None), Ok(()));
    desk.wait(LIMITED - 50);
    assert_eq!(desk.ledger.cooldowns_active(), 1);
    desk.ledger.expire(desk.now);
    assert_eq!(desk.ledger.cooldowns_active(), 0);
    desk.wait(TTL - LIMITED);
    assert!(!desk.is_live(&lease));
}

#[test]
fn what_ended_while_nothing_ran_is_ended() {
    for (away, live, reportable, cooling, records) in [
        (TTL - 1, true, true, 1, 0),
        (TTL, false, true, 1, 0),
        (BANNED, false, true, 0, 1),
        (TTL + BANNED - 1, false, true, 0, 1),
        (TTL + BANNED, false, false, 0, 2),
    ] {
        let mut desk = desk([proxy("a")]);
        let lease = desk.lease(&for_target("x.example"));
        desk.report(&lease, Banned, None).unwrap();
        desk.wait(away);
        desk.restart();
        assert_eq!(
            desk.ledger.take_entries().len(),
            records,
            "records dropped after {away} s"
        );
        assert_eq!(desk.ledger.cooldowns_active(), cooling, "after {away} s");
        assert_eq!(desk.is_live(&lease), live, "after {away} s");
        assert_eq!(
            desk.report(&lease, Fine, None).is_ok(),
            reportable,
            "after {away} s"
        );
    }
}
