//! Writes the definitions beside this crate's sources: `cargo run -p crds --example generate`.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    for (name, text) in crds::yaml::documents() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(name), text)?;
    }
    Ok(())
}
