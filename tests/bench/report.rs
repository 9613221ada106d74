//! The table, as people and as programs read it.

use anyhow::Context as _;
use serde::Serialize;
use std::{fmt::Write as _, fs, path::Path, time::Duration};

/// What a ratio has to be.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// Shown for what it says of another row.
    None,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub baseline: f64,
    pub ratio: f64,
    /// With the side from which it has to be reached; empty for none.
    pub bar: String,
    pub ok: bool,
}

impl Row {
    /// `value` and `baseline` are in `unit`.
    pub fn new(
        name: &'static str,
        unit: &'static str,
        value: f64,
        baseline: f64,
        bar: Bar,
    ) -> Self {
        Self::of_ratio(name, unit, value, baseline, value / baseline, bar)
    }

    /// A row whose ratio is not that of the two numbers, but a median of ratios.
    pub fn of_ratio(
        name: &'static str,
        unit: &'static str,
        value: f64,
        baseline: f64,
        ratio: f64,
        bar: Bar,
    ) -> Self {
        let (bar, ok) = match bar {
            Bar::AtLeast(least) => (format!(">= {least}"), ratio >= least),
            Bar::AtMost(most) => (format!("<= {most}"), ratio <= most),
            Bar::None => (String::new(), true),
        };
        Self {
            name,
            value,
            unit,
            baseline,
            ratio,
            bar,
            ok,
        }
    }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "{:<20} {:>12} {:>12} {:>9} {:>9}  {:<4} unit\n",
        "name", "value", "baseline", "ratio", "bar", "ok"
    );
    for row in rows {
        let ok = if row.ok { "yes" } else { "NO" };
        // Writing to a String cannot fail.
        writeln!(
            table,
            "{:<20} {:>12} {:>12} {:>9} {:>9}  {ok:<4} {}",
            row.name,
            short(row.value),
            short(row.baseline),
            short(row.ratio),
            row.bar,
            row.unit
        )
        .ok();
    }
    table
}

fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

/// Writes `target/bench.json`.
pub fn write(rows: &[Row]) -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let file = folder.join("bench.json");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&file, serde_json::to_vec_pretty(rows)?))
        .with_context(|| format!("writing {}", file.display()))
}

/// The middle one; of an even number the upper of the two. NaN for none.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    quantile(numbers, 0.5)
}

/// The number below which `share` of them lie. NaN for none.
pub fn quantile(numbers: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    let at = (numbers.len() as f64 * share) as usize;
    numbers
        .get(at.min(numbers.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// A count as a number to divide.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^52"
)]
pub fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// So many in that time, a second.
pub fn rate(count: u64, time: Duration) -> f64 {
    number(count) / time.as_secs_f64()
}
