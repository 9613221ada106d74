//! Writes `docs/reference.md` from the code: `cargo run --example reference`.

use std::{fs, path::Path};

fn main() -> anyhow::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    fs::write(file, proxy_operator::reference::page()?)?;
    Ok(())
}
