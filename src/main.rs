//! The program's entry; all it does is in [`proxy_operator::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    proxy_operator::cli::main()
}
