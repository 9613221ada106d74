//! Which proxy a request gets, and why none.

use super::*;

#[test]
fn fewest_leases_then_lowest_latency_then_id() {
    let mut desk = desk([
        slots(2, latency(None, proxy("unmeasured"))),
        slots(2, latency(Some(20), proxy("slow"))),
        slots(2, latency(Some(5), proxy("quick-b"))),
        slots(2, latency(Some(5), proxy("quick-a"))),
    ]);
    let order = ["quick-a", "quick-b", "slow", "unmeasured"];
    for wanted in order.iter().chain(&order) {
        assert_eq!(desk.gets(&any()), *wanted);
    }
    assert_eq!(desk.denial(&any()), denied(4, 0, 4, 0));
}

#[test]
fn all_pairs_of_a_selector_must_match() {
    let mut desk = desk([proxy("a"), slots(9, proxy("b"))]);
    assert_eq!(desk.gets(&with(&[("geo", "eu"), ("tier", "b")])), "b");
    for selector in [
        &[("geo", "us")][..],
        &[("nope", "eu")],
        &[("geo", "eu"), ("tier", "c")],
    ] {
        assert_eq!(
            desk.denial(&with(selector)),
            denied(0, 0, 0, 0),
            "{selector:?}"
        );
    }
    let change = Candidate {
        attributes: [("geo".to_owned(), "us".to_owned())].into(),
        ..proxy("b")
    };
    desk.set(change);
    assert_eq!(desk.denial(&with(&[("tier", "b")])), denied(0, 0, 0, 0));
    assert_eq!(
        desk.denial(&with(&[("geo", "us")])),
        denied(1, 0, 1, 0),
        "its lease still counts"
    );
}

#[test]
fn a_refused_proxy_counts_once_by_the_first_reason() {
    let mut desk = desk([
        sick(slots(0, proxy("sick-and-full"))),
        slots(0, proxy("no-slots")),
        proxy("a"),
        proxy("b"),
    ]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    assert_eq!(desk.gets(&for_target("x.example")), "b");
    assert_eq!(
        desk.denial(&for_target("x.example")),
        denied(4, 1, 3, 0),
        "full before cooling"
    );
    desk.release(&lease);
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 1, 2, 1));
    desk.set(sick(proxy("a")));
    assert_eq!(
        desk.denial(&for_target("x.example")),
        denied(4, 2, 2, 0),
        "unhealthy before cooling"
    );
}

#[test]
fn a_cooling_proxy_that_others_fill_is_at_capacity() {
    // More than are passed over one by one, so that the target has a queue of its own.
    let mut desk = desk(["a", "b", "c", "d"].map(proxy));
    let held: Vec<Grant> = (0..4)
        .map(|_| desk.lease(&for_target("x.example")))
        .collect();
    for lease in &held {
        desk.report(lease, Banned, None).unwrap();
        desk.release(lease);
    }
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 0, 4));
    let other = desk.lease(&for_target("y.example"));
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 1, 3));
    desk.release(&other);
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 0, 4));
    desk.wait(BANNED);
    assert_eq!(desk.gets(&for_target("x.example")), "a");
}

#[test]
fn changes_apply_to_the_next_request_and_end_no_lease() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&any());
    desk.lease(&any());
    desk.set(slots(1, proxy("a")));
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0));
    assert_eq!(desk.ledger.leases_active(), 2);
    desk.release(&lease);
    assert_eq!(
        desk.denial(&any()),
        denied(1, 0, 1, 0),
        "one is left of one slot"
    );
    desk.set(slots(2, sick(proxy("a"))));
    assert_eq!(desk.denial(&any()), denied(1, 1, 0, 0));
    desk.set(slots(2, proxy("a")));
    assert_eq!(desk.gets(&any()), "a");
}

#[test]
fn a_new_object_of_an_old_name_starts_afresh() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    desk.set(reborn(proxy("a")));
    assert_eq!(desk.gets(&for_target("x.example")), "a");
    let renewed = desk.ledger.renew(lease.id, lease.ttl, desk.now).unwrap();
    assert_eq!(renewed.proxy, None, "its own proxy is gone");
    desk.release(&lease);
    assert_eq!(desk.ledger.view(&lease.key).unwrap().active_leases, 1);
}

#[test]
fn a_proxy_that_comes_back_has_its_leases_and_cooldowns() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&for_target("x.example"));
    desk.ledger.remove(&lease.key);
    assert_eq!(desk.denial(&any()), denied(0, 0, 0, 0));
    desk.report(&lease, Banned, None).unwrap();
    desk.set(slots(2, proxy("a")));
    assert_eq!(desk.ledger.view(&lease.key).unwrap().active_leases, 1);
    assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
}

#[test]
fn proxies_are_listed_by_id_and_filter() {
    let mut desk = desk([proxy("c"), sick(proxy("b")), proxy("a")]);
    desk.lease(&with(&[("tier", "c")]));
    for (healthy, attributes, wanted) in [
        (None, any(), vec![("a", 0), ("b", 0), ("c", 1)]),
        (Some(true), any(), vec![("a", 0), ("c", 1)]),
        (Some(false), any(), vec![("b", 0)]),
        (None, with(&[("geo", "eu"), ("tier", "c")]), vec![("c", 1)]),
        (None, with(&[("geo", "us")]), vec![]),
    ] {
        let attributes = attributes.selector;
        let views = desk.ledger.views(&ViewFilter {
            healthy,
            attributes,
        });
        let got: Vec<(&str, u32)> = views
            .iter()
            .map(|v| (v.candidate.key.name(), v.active_leases))
            .collect();
        assert_eq!(got, wanted);
    }
    assert_eq!(desk.ledger.view(&ProxyKey::new("ns", "d")), None);
}
