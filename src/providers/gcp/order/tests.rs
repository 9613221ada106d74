use super::*;
use crate::providers::gcp::testing::request;
use serde_json::{Value, json};

fn config(more: &str) -> GcpConfig {
    serde_yaml::from_str(&format!("{{project: p{more}}}")).expect("a config")
}

fn ordered(request: &CreateRequest, more: &str) -> Value {
    let order = order(request, &config(more)).expect("can be made");
    serde_json::to_value(order.vm).expect("JSON")
}

#[test]
fn a_vm_has_one_disk_one_interface_and_the_marks() {
    let vm = ordered(&request(), "");
    let expected = json!({
        "name": request().name,
        "description": "Proxy crawl/a of proxy-operator",
        "machineType": "zones/z-a/machineTypes/e2-small",
        "labels": {
            "proxy-operator-managed": "true",
            "proxy-operator-uid": request().uid,
            "proxy-operator-installation": "here",
        },
        "tags": {"items": ["egress-proxy"]},
        "networkInterfaces": [{
            "network": "global/networks/default",
            "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}],
        }],
        "disks": [{
            "boot": true,
            "autoDelete": true,
            "initializeParams": {
                "sourceImage": "projects/i/global/images/family/ubuntu",
                "diskSizeGb": "10",
            },
        }],
    });
    assert_eq!(vm, expected);
}

#[test]
fn the_config_decides_on_network_disk_and_address() {
    let more = ", network: global/networks/n, networkTag: t, diskSizeGb: 20, internalIP: true";
    let vm = ordered(&request(), more);
    assert_eq!(
        vm["networkInterfaces"],
        json!([{"network": "global/networks/n"}])
    );
    assert_eq!(vm["tags"], json!({"items": ["t"]}));
    assert_eq!(vm["disks"][0]["initializeParams"]["diskSizeGb"], "20");
}

#[test]
fn user_data_is_text_as_it_is_and_all_else_in_base64() {
    let with = |bytes: &[u8]| {
        let user_data = Some(UserData::from(bytes.to_vec()));
        ordered(
            &CreateRequest {
                user_data,
                ..request()
            },
            "",
        )["metadata"]
            .clone()
    };
    let text = "#cloud-config\r\npackages: [squid] # \u{e4}\n\0";
    let items = json!({"items": [{"key": "user-data", "value": text}]});
    assert_eq!(with(text.as_bytes()), items);
    let items = json!({"items": [
        {"key": "user-data", "value": "H4v/AA=="},
        {"key": "user-data-encoding", "value": "base64"},
    ]});
    assert_eq!(with(&[0x1f, 0x8b, 0xff, 0x00]), items);
}

#[test]
fn user_data_may_have_256_kib_as_google_counts_them() {
    let with = |bytes: Vec<u8>| {
        let user_data = Some(UserData::from(bytes));
        order(
            &CreateRequest {
                user_data,
                ..request()
            },
            &config(""),
        )
        .err()
    };
    assert_eq!(with(vec![b'x'; 262_144]), None);
    let refused = with(vec![b'x'; 262_145]).expect("too large");
    assert_eq!(
        refused,
        "cloudInit of 262145 bytes: Google takes at most 262144"
    );
    assert_eq!(with(vec![0xff; 196_608]), None);
    let refused = with(vec![0xff; 196_609]).expect("too large");
    assert_eq!(
        refused,
        "cloudInit of 262148 bytes in base64: Google takes at most 262144"
    );
}

#[test]
fn what_cannot_be_made_is_refused_by_field_and_value() {
    type Change = fn(&mut CreateRequest);
    let cases: [(&str, Change); 16] = [
        ("placement.zone \"\": missing", |r| r.placement.zone = None),
        ("placement.zone \"\": missing", |r| {
            r.placement.zone = Some(String::new());
        }),
        ("placement.zone \"Z\": not a name", |r| {
            r.placement.zone = Some("Z".into());
        }),
        ("placement.zone \"a/../b\": not a name", |r| {
            r.placement.zone = Some("a/../b".into());
        }),
        ("placement.machineType \"\": missing", |r| {
            r.placement.machine_type = None;
        }),
        ("placement.machineType \"e2 small\": not", |r| {
            r.placement.machine_type = Some("e2 small".into());
        }),
        ("placement.image \"\": missing", |r| {
            r.placement.image = None;
        }),
        ("placement.image \"debian-13\": not an image", |r| {
            r.placement.image = Some("debian-13".into());
        }),
        ("name \"Not A Name\": not", |r| r.name = "Not A Name".into()),
        ("name \"\": not", |r| r.name.clear()),
        ("uid \"\": Google takes", |r| r.uid.clear()),
        ("uid \"A\": Google takes", |r| r.uid = "A".into()),
        ("installation \"prod.eu\": Google", |r| {
            r.installation = "prod.eu".into();
        }),
        ("installation \"\": Google takes", |r| {
            r.installation.clear();
        }),
        ("uid \"aaaaaaaa", |r| r.uid = "a".repeat(64)),
        ("port 0:", |r| r.port = 0),
    ];
    for (complaint, change) in cases {
        let mut request = request();
        change(&mut request);
        let refused = order(&request, &config("")).expect_err(complaint);
        assert!(refused.starts_with(complaint), "{complaint}: {refused}");
    }
}

#[test]
fn long_names_of_objects_do_not_matter() {
    let request = CreateRequest {
        proxy_name: "a.b-".repeat(60),
        namespace: "n".repeat(63),
        ..request()
    };
    let vm = ordered(&request, "");
    let told = vm["description"].as_str().expect("text");
    assert!(told.contains(&request.proxy_name) && told.len() < 2048);
}
