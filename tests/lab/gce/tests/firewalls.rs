//! Firewall rules.

use super::{Fixture, read};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_firewall_is_made_changed_and_deleted() {
    let lab = Fixture::new().await;
    let rule = json!({
        "name": "rule",
        "network": "global/networks/default",
        "allowed": [{ "IPProtocol": "tcp", "ports": ["3128"] }],
        "sourceRanges": ["192.0.2.0/24"],
        "targetTags": ["egress-proxy"],
    });
    let (status, insert) = lab.post("/global/firewalls", &rule).await;
    assert_eq!((status, &insert["zone"]), (200, &Value::Null));
    assert_eq!(lab.post("/global/firewalls", &rule).await.0, 409);
    lab.pass(10.0);
    let name = insert["name"].as_str().unwrap();
    assert_eq!(
        lab.get(&format!("/global/operations/{name}")).await.1["status"],
        "DONE"
    );
    let change = json!({ "name": "rule", "sourceRanges": ["198.51.100.7/32"] });
    let patched = lab
        .send(Method::PATCH, "/global/firewalls/rule", Some(&change))
        .await;
    assert_eq!(read(patched).await.0, 200);
    let (_, found) = lab.get("/global/firewalls/rule").await;
    assert_eq!(found["sourceRanges"], json!(["198.51.100.7/32"]));
    assert_eq!(found["allowed"], rule["allowed"]);
    assert_eq!(
        (&found["direction"], &found["priority"]),
        (&json!("INGRESS"), &json!(1000))
    );
    assert_eq!(
        lab.get("/global/firewalls").await.1["items"],
        json!([found])
    );
    for (field, value) in [
        ("allowed", json!([])),
        ("denied", json!([{ "IPProtocol": "tcp" }])),
        ("allowed", json!([{ "ports": ["1"] }])),
        (
            "allowed",
            json!([{ "IPProtocol": "tcp", "ports": ["70000"] }]),
        ),
        (
            "allowed",
            json!([{ "IPProtocol": "tcp", "ports": ["9-8"] }]),
        ),
        ("allowed", json!([{ "IPProtocol": "icmp", "ports": ["1"] }])),
        ("sourceRanges", json!(["everywhere"])),
        ("sourceRanges", json!(["10.0.0.1/8"])),
        ("targetTags", json!(["Tag"])),
        ("colour", json!("red")),
    ] {
        let mut wrong = rule.clone();
        wrong["name"] = "wrong".into();
        wrong[field] = value;
        assert_eq!(
            lab.post("/global/firewalls", &wrong).await.0,
            400,
            "{wrong}"
        );
    }
    assert_eq!(lab.delete("/global/firewalls/rule").await.0, 200);
    assert_eq!(lab.get("/global/firewalls/rule").await.0, 404);
}
