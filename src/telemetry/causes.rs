//! Errors in one line.

use std::error::Error;

/// An error with its causes, each told once: many an error prints its cause itself.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot list pods")]
    struct Silent(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot list pods: {0}")]
    struct Repeating(#[source] io::Error);

    #[test]
    fn each_cause_is_told_once() {
        let reset = || io::Error::other("connection reset");
        let told = "cannot list pods: connection reset";
        assert_eq!(with_causes(&Silent(reset())), told);
        assert_eq!(with_causes(&Repeating(reset())), told);
        let above = anyhow::Error::new(Repeating(reset())).context("no cluster");
        assert_eq!(with_causes(above.as_ref()), format!("no cluster: {told}"));
    }
}
