//! Lives of instances and operations.

use super::{Fixture, ZONE, body, why};
use crate::gce::{Options, life::Pace, operation::Failure};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn an_instance_is_born_lives_and_goes() {
    let lab = Fixture::new().await;
    let (status, insert) = lab.insert(&body("a")).await;
    assert_eq!(
        (status, &insert["status"]),
        (200, &json!("PENDING")),
        "{insert}"
    );
    assert_eq!(insert["operationType"], "insert");
    assert_eq!(lab.instance("a").await.0, 404, "it is there too early");

    lab.pass(0.5);
    let (_, young) = lab.instance("a").await;
    assert_eq!(young["status"], "PROVISIONING");
    assert_eq!(young["id"], insert["targetId"]);
    assert_eq!(young["selfLink"], insert["targetLink"]);
    assert!(young["networkInterfaces"][0]["accessConfigs"][0]["natIP"].is_null());

    lab.pass(3.0);
    assert_eq!(lab.instance("a").await.1["status"], "STAGING");
    assert_eq!(lab.operation(&insert).await["status"], "RUNNING");

    lab.pass(6.0);
    let (_, grown) = lab.instance("a").await;
    assert_eq!(grown["status"], "RUNNING");
    for instance in lab.gce.world().named("a") {
        assert_eq!(instance.metadata("user-data"), Some("#cloud-config\n"));
    }
    let nic = &grown["networkInterfaces"][0];
    assert!(
        nic["accessConfigs"][0]["natIP"]
            .as_str()
            .unwrap()
            .starts_with("127.")
    );
    assert!(nic["networkIP"].as_str().unwrap().starts_with("127."));
    let done = lab.operation(&insert).await;
    assert_eq!(
        (&done["status"], &done["progress"]),
        (&json!("DONE"), &json!(100))
    );
    assert!(done["error"].is_null());
    let written = grown["creationTimestamp"].as_str().unwrap();
    assert!(
        written.ends_with("-08:00") && written.len() == 29,
        "{written}"
    );

    let (status, delete) = lab.delete(&format!("/zones/{ZONE}/instances/a")).await;
    assert_eq!((status, &delete["operationType"]), (200, &json!("delete")));
    lab.pass(1.0);
    assert_eq!(lab.instance("a").await.1["status"], "STOPPING");
    // The name is taken until it is gone.
    let (status, taken) = lab.insert(&body("a")).await;
    assert_eq!((status, why(&taken).1), (409, "alreadyExists"));
    lab.pass(24.5);
    let (status, gone) = lab.instance("a").await;
    let path = format!("projects/lab-project/zones/{ZONE}/instances/a");
    let words = format!("The resource '{path}' was not found");
    assert_eq!((status, why(&gone)), (404, (words.as_str(), "notFound")));
    assert_eq!(lab.operation(&delete).await["status"], "DONE");
    assert_eq!(lab.insert(&body("a")).await.0, 200);
}

#[tokio::test]
async fn an_instance_without_an_access_config_has_no_address_outside() {
    let lab = Fixture::new().await;
    let mut inside = body("inside");
    inside["networkInterfaces"][0]
        .as_object_mut()
        .unwrap()
        .remove("accessConfigs");
    assert_eq!(lab.insert(&inside).await.0, 200);
    lab.pass(10.0);
    let (_, found) = lab.instance("inside").await;
    assert!(
        found["networkInterfaces"][0]["accessConfigs"].is_null(),
        "{found}"
    );
    assert!(found["networkInterfaces"][0]["networkIP"].is_string());
}

#[tokio::test]
async fn addresses_may_come_later_than_running() {
    let pace = Pace {
        addresses: Duration::from_secs(5),
        ..Pace::default()
    };
    let lab = Fixture::with(Options {
        pace,
        ..Options::default()
    })
    .await;
    lab.insert(&body("late")).await;
    for (seconds, has) in [(10.0, false), (5.0, true)] {
        lab.pass(seconds);
        let (_, found) = lab.instance("late").await;
        assert_eq!(found["status"], "RUNNING");
        let address = &found["networkInterfaces"][0]["accessConfigs"][0]["natIP"];
        assert_eq!(address.is_string(), has, "{found}");
    }
}

#[tokio::test]
async fn a_stopped_instance_loses_its_address_and_stays() {
    let lab = Fixture::new().await;
    lab.insert(&body("a")).await;
    lab.pass(10.0);
    let stop = format!("/zones/{ZONE}/instances/a/stop");
    let (status, _) = super::read(lab.send(reqwest::Method::POST, &stop, None).await).await;
    assert_eq!(status, 200);
    lab.pass(1.0);
    assert_eq!(lab.instance("a").await.1["status"], "STOPPING");
    lab.pass(20.0);
    let (_, stopped) = lab.instance("a").await;
    assert_eq!(stopped["status"], "TERMINATED");
    assert!(stopped["networkInterfaces"][0]["accessConfigs"][0]["natIP"].is_null());
}

#[tokio::test]
async fn an_operation_fails_after_it_was_accepted() {
    let lab = Fixture::new().await;
    let failures = [
        Failure::exhausted("lab-project", ZONE),
        Failure::quota("CPUS", 24.0, "europe-west1"),
        Failure::image("projects/p/global/images/i"),
    ];
    for failure in failures {
        let Failure { code, http, .. } = failure.clone();
        lab.gce.world().failures.push_back(("/a".into(), failure));
        let (status, insert) = lab.insert(&body("a")).await;
        assert_eq!(status, 200);
        lab.pass(3.0);
        assert_eq!(lab.operation(&insert).await["status"], "RUNNING");
        assert_eq!(lab.instance("a").await.0, 404);
        lab.pass(1.5);
        let failed = lab.operation(&insert).await;
        assert_eq!(failed["status"], "DONE");
        assert_eq!(failed["error"]["errors"][0]["code"], code.as_str());
        assert_eq!(failed["httpErrorStatusCode"], http);
        assert!(failed["httpErrorMessage"].is_string());
        assert_eq!(lab.instance("a").await.0, 404);
    }
    // What was ordered is over.
    lab.insert(&body("a")).await;
    lab.pass(10.0);
    assert_eq!(lab.instance("a").await.1["status"], "RUNNING");
}

#[tokio::test]
async fn a_full_region_fails_what_it_takes() {
    let lab = Fixture::new().await;
    lab.gce.world().quotas.insert("INSTANCES".into(), 1.0);
    lab.insert(&body("fits")).await;
    let (status, second) = lab.insert(&body("too-much")).await;
    assert_eq!(status, 200);
    lab.pass(5.0);
    let failed = lab.operation(&second).await;
    assert_eq!(
        failed["error"]["errors"][0]["code"], "QUOTA_EXCEEDED",
        "{failed}"
    );
    let (_, region) = lab.get("/regions/europe-west1").await;
    let quotas = region["quotas"].as_array().unwrap();
    let quota = quotas
        .iter()
        .find(|one| one["metric"] == "INSTANCES")
        .unwrap();
    assert_eq!(
        (&quota["usage"], &quota["limit"]),
        (&json!(1.0), &json!(1.0))
    );
}

#[tokio::test]
async fn the_same_request_is_the_same_operation() {
    let lab = Fixture::new().await;
    let id = "0e6f8f4e-9f56-4a3d-a3b5-8f6f3ea5c111";
    let path = format!("/zones/{ZONE}/instances?requestId={id}");
    let (_, first) = lab.post(&path, &body("a")).await;
    let (status, again) = lab.post(&path, &body("a")).await;
    assert_eq!((status, &again["name"]), (200, &first["name"]));
    assert_eq!(again["clientOperationId"], id);
    // Another request is another matter.
    let other = path.replace("111", "222");
    assert_eq!(lab.post(&other, &body("a")).await.0, 409);

    // Also when it failed, and after it is gone.
    let exhausted = Failure::exhausted("lab-project", ZONE);
    lab.gce.world().failures.push_back(("b".into(), exhausted));
    let path = path.replace("111", "333");
    let (_, first) = lab.post(&path, &body("b")).await;
    lab.pass(60.0);
    let (status, again) = lab.post(&path, &body("b")).await;
    assert_eq!((status, &again["name"]), (200, &first["name"]));
    assert_eq!(
        again["error"]["errors"][0]["code"],
        "ZONE_RESOURCE_POOL_EXHAUSTED"
    );
    assert_eq!(lab.instance("b").await.0, 404);

    lab.gce.world().forget_operations();
    let name = first["name"].as_str().unwrap();
    assert_eq!(
        lab.get(&format!("/zones/{ZONE}/operations/{name}")).await.0,
        404
    );
    assert_eq!(lab.post(&path, &body("b")).await.0, 200);
}

#[tokio::test]
async fn a_second_delete_is_taken_or_refused_as_it_is_set() {
    let lab = Fixture::new().await;
    lab.insert(&body("a")).await;
    lab.pass(10.0);
    let path = format!("/zones/{ZONE}/instances/a");
    let (_, first) = lab.delete(&path).await;
    lab.pass(1.0);
    let (status, second) = lab.delete(&path).await;
    assert_eq!(status, 200);
    assert_ne!(first["name"], second["name"]);
    lab.gce.world().refuse_second_delete = true;
    let (status, refused) = lab.delete(&path).await;
    assert_eq!((status, why(&refused).1), (400, "resourceNotReady"));
}

#[tokio::test]
async fn behind_everybodys_back_instances_come_change_and_go() {
    let lab = Fixture::new().await;
    let now = lab.gce.now();
    lab.gce
        .world()
        .place(ZONE, "found", &json!({ "fleet": "two" }), now);
    let (_, found) = lab.instance("found").await;
    assert_eq!(found["status"], "RUNNING");
    assert_eq!(lab.gce.world().resources(now), [found]);
    lab.gce.world().turn("found", "SUSPENDED", now);
    assert_eq!(lab.instance("found").await.1["status"], "SUSPENDED");
    assert!(lab.gce.world().vanish("found", now));
    assert_eq!(lab.instance("found").await.0, 404);
    assert!(!lab.gce.world().vanish("found", now));
}

#[tokio::test]
async fn a_wait_waits_until_it_is_done() {
    let lab = Fixture::new().await;
    let (_, insert) = lab.insert(&body("a")).await;
    lab.gce.set_speed(100.0);
    let name = insert["name"].as_str().unwrap();
    let path = format!("/zones/{ZONE}/operations/{name}/wait");
    let (status, done) = super::read(lab.send(reqwest::Method::POST, &path, None).await).await;
    assert_eq!((status, &done["status"]), (200, &json!("DONE")));
}

#[tokio::test]
async fn a_running_instance_is_served_by_a_real_proxy() {
    use crate::{
        gce::proxies,
        squid::{self, Squid},
    };
    // The first Squid of a machine takes as long as an installation.
    Squid::start(squid::Options::default()).await.unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let lab = Fixture::with(Options {
        proxies: Some(proxies::on_port(port)),
        ..Options::default()
    })
    .await;
    lab.insert(&body("a")).await;
    lab.pass(10.0);
    let (_, running) = lab.instance("a").await;
    let address = &running["networkInterfaces"][0]["accessConfigs"][0]["natIP"];
    let proxy = format!("http://{}:{port}", address.as_str().unwrap());
    let client = reqwest::Client::builder()
        .proxy(reqwest::Proxy::all(&proxy).unwrap())
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let page = format!("{}/nothing", lab.gce.endpoint());
    let again = || tokio::time::sleep(Duration::from_millis(50));
    let answered = async {
        loop {
            match client.get(&page).send().await {
                Ok(answer) => break answer.status(),
                Err(_) => again().await,
            }
        }
    };
    // What comes back is the stand-in's own page, by way of the proxy.
    assert_eq!(timeout(PATIENCE, answered).await.unwrap(), 404);
    assert_eq!(lab.gce.requests().last().unwrap().path, "/nothing");
    let now = lab.gce.now();
    lab.gce.world().vanish("a", now);
    let silent = async {
        while client.get(&page).send().await.is_ok() {
            again().await;
        }
    };
    timeout(PATIENCE, silent)
        .await
        .expect("the proxy outlives its instance");
}

#[tokio::test]
async fn a_project_that_begins_anew_is_empty_and_knows_no_request_of_before() {
    let lab = Fixture::new().await;
    let path = format!("/zones/{ZONE}/instances?requestId=01234567-0123-4123-8123-0123456789ab");
    let (_, first) = lab.post(&path, &body("a")).await;
    lab.pass(60.0);
    let (_, again) = lab.post(&path, &body("a")).await;
    assert_eq!(
        (&again["id"], &again["status"]),
        (&first["id"], &json!("DONE"))
    );
    lab.gce.begin_anew(Pace::default());
    assert!(lab.gce.world().instances.is_empty());
    assert!(lab.gce.requests().is_empty());
    let (status, new) = lab.post(&path, &body("a")).await;
    assert_eq!((status, &new["status"]), (200, &json!("PENDING")), "{new}");
    assert_eq!(lab.gce.world().instances.len(), 1);
}
