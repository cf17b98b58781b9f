//! `rawrag`: run experiments on raw conversation history, look into their records, and search a
//! history of one's own.
//!
//! Exit codes: 0 done, 2 wrong usage, 3 bad input, 4 a service failed, 1 anything else.

mod commands;
mod failure;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
