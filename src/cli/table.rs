//! Columns for the terminal.

use std::fmt::Write as _;

/// Rows under a heading; every column as wide as its widest cell, the last one not padded.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row; a cell that is empty shows a `-`.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                // What comes from elsewhere must neither break the lines nor steer the terminal.
                cell.chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect()
            }
        });
        self.rows.push(cells.collect());
    }

    /// The lines, without line ends; the first is the heading.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a String cannot fail.
                write!(line, "{cell:<width$}  ").ok();
            }
            line.truncate(line.trim_end().len());
            line
        };
        self.rows.iter().map(line).collect()
    }

    /// The lines as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.lines().join("\n");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let mut table = Table::new(&["A", "LONG HEADING", "LAST"]);
        table.row(["├── x", "", "1\x1b[2J\n"].map(str::to_owned));
        table.row(["y", "z", "22"].map(str::to_owned));
        let expected = [
            "A      LONG HEADING  LAST",
            "├── x  -             1 [2J",
            "y      z             22",
        ];
        assert_eq!(table.lines(), expected);
    }
}
