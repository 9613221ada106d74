//! The contract: a fuzzer reads `/openapi.json` and finds nothing that the document does not say.

use super::{
    Auth, Limits, Settings,
    testing::{LedgerDesk, proxy, served_with},
};
use std::{path::Path, process::Stdio, time::Duration};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a minute of fuzzing, and schemathesis from PyPI"]
async fn the_api_is_what_its_document_says() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/schemathesis.sh");
    for token in [None, Some("s3cret")] {
        let desk =
            LedgerDesk::with((0..8).map(|index| proxy(&format!("p{index}"), &[("geo", "de")])));
        let auth = Auth::new(token.map(str::to_owned), None, Duration::MAX).await;
        let auth = auth.expect("a token");
        let api = served_with(desk, auth, Settings::default(), Limits::default()).await;
        let output = tokio::process::Command::new(&script)
            .arg(format!("http://{}", api.address))
            .env("DISCOVERY_TOKEN", token.unwrap_or_default())
            .stdin(Stdio::null())
            .output()
            .await
            .expect("the script runs");
        assert!(
            output.status.success(),
            "token {token:?}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
