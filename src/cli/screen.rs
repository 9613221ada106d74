//! Showing something once, or again and again in its place.

use super::Failure;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// What is drawn at one moment.
pub struct Picture {
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line, and whether it says something new or bad.
pub struct Line {
    /// The text.
    pub text: String,
    /// How it is to be seen.
    pub tone: Tone,
}

/// How a line is to be seen, on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// A heading.
    Heading,
    /// It changed since the last picture.
    Changed,
    /// Something is wrong.
    Bad,
}

/// Standard output: a terminal, or a pipe.
pub struct Screen {
    terminal: bool,
    colour: bool,
    /// How many lines the last picture has, where it is to be drawn over.
    drawn: usize,
}

impl Screen {
    /// Standard output as it is.
    #[must_use]
    pub fn of_stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            terminal,
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
            drawn: 0,
        }
    }

    /// Draws a picture: on a terminal over the last one, cut to what fits; into a pipe below it.
    ///
    /// # Errors
    /// That nobody reads any more.
    pub fn draw(&mut self, picture: &Picture) -> io::Result<()> {
        let mut parts = Vec::new();
        let mut lines = &picture.lines[..];
        let mut hidden = 0;
        if self.terminal && self.drawn > 0 {
            // Up to the first line, and everything from there on away.
            parts.push(format!("\x1b[{}F\x1b[J", self.drawn));
        }
        let size = self.terminal.then(size).flatten();
        let (rows, columns) = size.unwrap_or((usize::MAX, usize::MAX));
        // The last row stays free for the cursor.
        if lines.len() >= rows {
            let fit = rows.saturating_sub(2);
            hidden = lines.len() - fit;
            lines = &lines[..fit];
        }
        parts.extend(lines.iter().map(|line| self.painted(line, columns)));
        if hidden > 0 {
            parts.push(format!("… {hidden} more lines\n"));
        }
        self.drawn = lines.len() + usize::from(hidden > 0);
        if !self.terminal {
            parts.push("\n".to_owned());
        }
        let out = parts.concat();
        let mut stdout = io::stdout().lock();
        stdout.write_all(out.as_bytes())?;
        stdout.flush()
    }

    /// The picture once, however long it is.
    #[must_use]
    pub fn whole(&self, picture: &Picture) -> String {
        let lines = picture.lines.iter();
        lines.map(|line| self.painted(line, usize::MAX)).collect()
    }

    fn painted(&self, line: &Line, columns: usize) -> String {
        let text: String = line.text.chars().take(columns).collect();
        let code = match line.tone {
            _ if !self.colour => return format!("{text}\n"),
            Tone::Plain => return format!("{text}\n"),
            Tone::Heading => 1,
            Tone::Changed => 33,
            Tone::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m\n")
    }
}

/// Rows and columns of the terminal.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row.into(), size.ws_col.into()))
}

/// Draws what `picture` makes, again after each `interval`, until nobody reads it or Ctrl-C. What it
/// cannot make is drawn too: an operator that is being restarted is no reason to stop watching.
///
/// # Errors
/// Standard output's, and a picture that cannot be made even the first time.
pub async fn watch(
    interval: Duration,
    mut picture: impl AsyncFnMut() -> Result<Picture, Failure>,
) -> Result<(), Failure> {
    let mut screen = Screen::of_stdout();
    let mut drawn = false;
    loop {
        let made = match picture().await {
            Ok(made) => made,
            Err(failure) if !drawn => return Err(failure),
            Err(failure) => Picture {
                lines: vec![Line {
                    text: failure.to_string(),
                    tone: Tone::Bad,
                }],
            },
        };
        match screen.draw(&made) {
            Ok(()) => drawn = true,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(Failure::Setup(format!("cannot write to stdout: {e}"))),
        }
        tokio::time::sleep(interval).await;
    }
}
