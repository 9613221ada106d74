//! How long a lease lives, and who gets it again.

use super::*;

#[test]
fn a_lease_ends_at_its_end() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    assert_eq!(lease.expires_at, desk.now.wall + Duration::from_secs(TTL));
    assert_eq!(
        desk.ledger.next_expiry(),
        Some(desk.now.mono + Duration::from_secs(TTL))
    );
    desk.wait(TTL - 1);
    assert!(desk.is_live(&lease));
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0));
    desk.wait(1);
    assert!(!desk.is_live(&lease));
    assert_eq!(
        desk.ledger.renew(lease.id, lease.ttl, desk.now),
        Err(UnknownLease)
    );
    assert_eq!(desk.gets(&any()), "a");
}

#[test]
fn renewing_counts_from_now() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    desk.wait(TTL - 1);
    let renewed = desk
        .ledger
        .renew(lease.id, Duration::from_secs(10), desk.now)
        .unwrap();
    assert_eq!(renewed.expires_at, desk.now.wall + Duration::from_secs(10));
    assert_eq!((renewed.id, renewed.ttl.as_secs()), (lease.id, 10));
    desk.wait(9);
    assert!(desk.is_live(&lease));
    desk.wait(1);
    assert!(!desk.is_live(&lease));
}

#[test]
fn a_step_of_the_wall_clock_ends_and_prolongs_nothing() {
    let hour = Duration::from_hours(1);
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    desk.now.wall += hour;
    assert!(desk.is_live(&lease));
    desk.now.wall -= hour * 2;
    desk.wait(TTL);
    assert!(!desk.is_live(&lease));
    assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
    desk.wait(BANNED - TTL);
    assert_eq!(desk.gets(&for_target("x.example")), "a");
}

#[test]
fn a_released_lease_is_gone_and_releasing_again_is_nothing() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&any());
    let other = desk.lease(&any());
    desk.release(&lease);
    desk.release(&lease);
    assert!(!desk.is_live(&lease) && desk.is_live(&other));
    assert_eq!(desk.ledger.view(&other.key).unwrap().active_leases, 1);
    assert_eq!(
        desk.ledger.renew(lease.id, lease.ttl, desk.now),
        Err(UnknownLease)
    );
}

#[test]
fn the_same_key_gets_the_same_lease_while_it_lives() {
    let mut desk = desk([slots(5, proxy("a"))]);
    let (lease, granted) = desk.keyed(&any());
    assert_eq!(granted, Granted::Fresh);
    desk.wait(5);
    let (again, granted) = desk.keyed(&any());
    assert_eq!(
        (again.id, again.expires_at, granted),
        (lease.id, lease.expires_at, Granted::Repeated)
    );
    let renewed = desk.ledger.renew(lease.id, lease.ttl, desk.now).unwrap();
    assert_eq!(
        desk.keyed(&any()).0.expires_at,
        renewed.expires_at,
        "as it is now"
    );
    for other in [
        for_target("x.example"),
        with(&[("geo", "eu")]),
        AcquireRequest {
            ttl: Duration::from_secs(1),
            ..any()
        },
    ] {
        assert_eq!(desk.ask(&other, Some("key")), Err(KeyReused), "{other:?}");
    }
    assert_eq!(desk.ledger.leases_active(), 1);
    desk.release(&lease);
    let (fresh, granted) = desk.keyed(&for_target("x.example"));
    assert_eq!(granted, Granted::Fresh, "released");
    desk.wait(TTL);
    assert_ne!(desk.keyed(&any()).0.id, fresh.id, "expired");
}

#[test]
fn a_repeated_acquire_is_not_told_of_a_proxy_that_left() {
    let mut desk = desk([latency(Some(1), proxy("a")), proxy("b")]);
    let (lease, _) = desk.keyed(&any());
    desk.ledger.remove(&lease.key);
    let held = desk.lease(&any());
    assert_eq!(
        desk.ask(&any(), Some("key")),
        Err(Denied(denied(1, 0, 1, 0)))
    );
    assert!(desk.is_live(&lease), "nothing better was found");
    desk.release(&held);
    let (other, granted) = desk.keyed(&any());
    assert_eq!((other.key.name(), granted), ("b", Granted::Fresh));
    assert!(!desk.is_live(&lease));
}

#[test]
fn no_duration_overflows() {
    let endless = AcquireRequest {
        ttl: Duration::MAX,
        ..any()
    };
    let mut desk = desk([proxy("a")]);
    desk.ledger.terms.ban_cooldown = Duration::MAX;
    let lease = desk.lease(&endless);
    desk.report(&lease, Banned, Some("x.example")).unwrap();
    desk.wait(1_000_000);
    assert!(desk.is_live(&lease));
    assert!(
        desk.ledger
            .renew(lease.id, Duration::from_secs(u64::MAX), desk.now)
            .is_ok()
    );
    desk.restart();
    assert!(desk.is_live(&lease));
    assert_eq!(desk.ledger.cooldowns_active(), 1);
    desk.release(&lease);
}

#[test]
fn live_leases_are_listed() {
    let mut desk = desk([slots(3, proxy("a"))]);
    let leases = [(); 3].map(|()| desk.lease(&any()));
    desk.release(&leases[1]);
    let listed: Vec<LeaseId> = desk
        .ledger
        .leases(desk.now)
        .iter()
        .map(|grant| grant.id)
        .collect();
    assert_eq!(listed, [leases[0].id, leases[2].id]);
}
