//! `completions`: what a shell needs to complete this program's words.

use clap::Args;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  proxy-operator completions bash >/etc/bash_completion.d/proxy-operator
  proxy-operator completions zsh  >\"${fpath[1]}/_proxy-operator\"
  proxy-operator completions fish >~/.config/fish/completions/proxy-operator.fish";

/// What is to be completed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    /// The script.
    #[must_use]
    pub fn script(&self, mut command: clap::Command) -> Vec<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "proxy-operator", &mut script);
        script
    }
}
