//! The reference page, `docs/reference.md`: made from the flags, the metrics and the words that the code
//! itself uses, so that it cannot say anything else than the program does. `make reference` writes it.

mod commands;
mod metrics;
mod words;

pub use metrics::{Described, catalogue};

/// The page.
///
/// # Errors
/// Where two metrics have one name.
pub fn page() -> Result<String, prometheus::Error> {
    let parts = [
        HEAD.to_owned(),
        commands::chapter(),
        metrics::chapter(&catalogue()?),
        words::chapter(),
    ];
    Ok(parts.join("\n"))
}

const HEAD: &str = "\
<!-- Generated from the code by `make reference`; do not edit. -->
# Reference

All flags, exit codes, metrics, reasons and error codes, as the program has them. What they are for is told in
[configuration](configuration.md), [the lease API](api.md), [the command line](cli.md) and
[failure modes](failure-modes.md).
";

/// A row of a table; bars and line ends in cells would break it.
fn row<const N: usize>(cells: [&str; N]) -> String {
    let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
    format!("| {} |\n", cells.join(" | "))
}

fn table<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = String>) -> String {
    let rows: String = rows.into_iter().collect();
    format!("{}{}{rows}", row(heading), row(["---"; N]))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn the_page_is_what_the_code_says() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
        let written = fs::read_to_string(file).unwrap_or_default();
        let page = super::page().expect("a page");
        assert!(
            written == page,
            "docs/reference.md is stale: run `make reference` and commit what it writes"
        );
    }

    #[test]
    fn every_row_of_the_page_says_what_it_is_about() {
        let page = super::page().expect("a page");
        assert!(page.lines().filter(|line| line.starts_with("| `")).count() > 80);
        for line in page.lines().filter(|line| line.starts_with('|')) {
            assert!(!line.ends_with("|  |"), "{line}");
        }
    }
}
