//! The program as a shell sees it: arguments and environment in, one line and an exit code out.
//!
//! Every refusal is tried with a listener in the API server's place, which must see nobody: what is
//! wrong with flags and files shows before anything is touched.
//!
//! | file | is |
//! |---|---|
//! | [`printed`] | what it prints when asked for nothing else |
//! | [`flags`], [`files`] | what is wrong with flags, variables and files |
//! | [`start`] | what ends a start when they are right |
//! | [`place`] | where it is run from |

mod files;
mod flags;
mod place;
mod printed;
mod start;

use anyhow::Result;

/// A scenario: what it shows, and the test of it.
type Scenario = (&'static str, fn() -> Result<()>);

/// All that needs no cluster.
pub const SCENARIOS: &[Scenario] = &[
    (
        "cli::help_and_version_go_to_stdout",
        printed::help_and_version_go_to_stdout,
    ),
    (
        "cli::crds_prints_the_shipped_files",
        printed::crds_prints_the_shipped_files,
    ),
    (
        "cli::check_config_sums_up_a_good_file",
        printed::check_config_sums_up_a_good_file,
    ),
    ("cli::a_bad_flag_is_named", flags::a_bad_flag_is_named),
    (
        "cli::a_bad_twin_in_the_environment_is_named",
        flags::a_bad_twin_in_the_environment_is_named,
    ),
    (
        "cli::an_election_needs_an_address_and_a_namespace",
        flags::an_election_needs_an_address_and_a_namespace,
    ),
    ("cli::bad_traces_are_named", flags::bad_traces_are_named),
    (
        "cli::a_bad_providers_file_is_named",
        files::a_bad_providers_file_is_named,
    ),
    (
        "cli::a_token_that_is_none_is_refused",
        flags::a_token_that_is_none_is_refused,
    ),
    (
        "cli::a_ca_file_that_holds_none_is_named",
        files::a_ca_file_that_holds_none_is_named,
    ),
    (
        "cli::an_address_in_use_is_named",
        start::an_address_in_use_is_named,
    ),
    (
        "cli::no_cluster_ends_the_start",
        start::no_cluster_ends_the_start,
    ),
    (
        "cli::a_closed_pipe_is_no_crash",
        printed::a_closed_pipe_is_no_crash,
    ),
];

/// A providers file with nothing wrong.
const GOOD: &str = "
providers:
  - {name: home, type: kubernetes, kubernetes: {image: 'lab.local/squid:1'}}
  - {name: other, type: kubernetes}
";
