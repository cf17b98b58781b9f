//! The reviewer's commands: tables from cached outputs, measured beside published.

mod audit;
mod commands;
mod density;
mod diagnose;
mod export;
#[cfg(feature = "frames")]
mod pack;
mod plan;
mod reproduce;
mod skeleton;
mod validity;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(&commands::Arguments::parse(), &mut io::stdout().lock()) {
        Ok(status) => status,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell when even this cannot be written.
            let _ = writeln!(io::stderr(), "error: {failure}");
            failure.status()
        }
    }
}
