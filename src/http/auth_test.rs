use super::*;
use crate::http::{
    Limits, Settings,
    testing::{LedgerDesk, Served, proxy, served_with},
};

async fn secured(token: Option<&str>, file: Option<PathBuf>) -> Served {
    let every = Duration::from_millis(5);
    let auth = Auth::new(token.map(str::to_owned), file, every).await;
    let auth = auth.expect("a token");
    served_with(
        LedgerDesk::with([proxy("a", &[])]),
        auth,
        Settings::default(),
        Limits::default(),
    )
    .await
}

#[tokio::test]
async fn a_token_is_asked_for_everywhere_but_at_healthz() {
    let api = secured(Some("s3cret\n"), None).await;
    for (path, method) in [
        ("/v1/proxies", "GET"),
        ("/openapi.json", "GET"),
        ("/nothing", "GET"),
        ("/v1/leases", "PUT"),
    ] {
        for header in [
            None,
            Some(""),
            Some("s3cret"),
            Some("Basic s3cret"),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer s3cre"),
            Some("Bearer s3crets"),
            Some("Bearers3cret"),
        ] {
            let mut request = api.request(method, path);
            if let Some(header) = header {
                request = request.header("Authorization", header);
            }
            let answer = Served::send(request).await;
            assert_eq!(answer.refusal(), "401 unauthorized", "{path} {header:?}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(api.get("/healthz").await.status, 200);
    let posted = api.call("POST", "/healthz", "").await;
    assert_eq!(posted.refusal(), "405 method_not_allowed");
    for header in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret"] {
        let request = api
            .request("GET", "/v1/proxies")
            .header("Authorization", header);
        assert_eq!(Served::send(request).await.status, 200, "{header}");
    }
}

#[tokio::test]
async fn a_token_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let api = secured(None, Some(path.clone())).await;
    let with = async |token: &str| {
        let request = api.request("GET", "/v1/proxies").bearer_auth(token);
        Served::send(request).await.status
    };
    let until = async |token: &str, status: u16| {
        let turns = async {
            while with(token).await != status {
                tokio::task::yield_now().await;
            }
        };
        let turned = tokio::time::timeout(Duration::from_secs(10), turns).await;
        turned.unwrap_or_else(|_| panic!("{token} never got {status}"));
    };
    assert_eq!(with("").await, 401, "no file yet");
    std::fs::write(&path, "one\n").expect("writes");
    until("one", 200).await;
    // As the kubelet swaps a Secret's volume: the same length, and maybe the same second.
    let fresh = folder.path().join("fresh");
    std::fs::write(&fresh, "two\n").expect("writes");
    std::fs::rename(&fresh, &path).expect("renames");
    until("two", 200).await;
    assert_eq!(with("one").await, 401);
    std::fs::write(&path, " \n").expect("writes");
    until("two", 401).await;
    assert_eq!(with("").await, 401, "an empty file is no empty token");
}

#[tokio::test]
async fn a_token_is_set_in_one_place_and_to_something() {
    let no_time = Duration::MAX;
    let empty = Auth::new(Some(" ".into()), None, no_time).await;
    assert!(matches!(empty, Err(AuthError::EmptyToken(_))));
    let two = Auth::new(Some("a".into()), Some("/b".into()), no_time).await;
    assert!(matches!(two, Err(AuthError::TwoSources(_))));
}
