//! The contract over a ledger in this process, which needs no lab: `cargo test contract -- --ignored`.

use super::{
    Auth, Limits, Settings,
    testing::{LedgerDesk, proxy, served_with},
};
use actors::leases::terms::Candidate;
use std::time::Duration;

#[path = "../../tests/whole/api.rs"]
mod api;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a minute of fuzzing, and schemathesis from PyPI"]
async fn the_api_is_what_its_document_says() {
    for token in [None, Some("s3cret")] {
        let fleet = (0..8).map(|index| Candidate {
            max_leases: 10_000,
            ..proxy(&format!("p{index}"), &[("geo", "de")])
        });
        let auth = Auth::new(token.map(str::to_owned), None, Duration::MAX).await;
        let auth = auth.expect("a token");
        let desk = LedgerDesk::with(fleet);
        let served = served_with(desk, auth, Settings::default(), Limits::default()).await;
        let base = format!("http://{}", served.address);
        let outcome = tokio::task::spawn_blocking(move || api::keeps_its_contract(&base, token));
        if let Err(report) = outcome.await.expect("ends") {
            panic!("{report}");
        }
    }
}
