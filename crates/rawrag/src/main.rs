//! The `rawrag` program; see [`rawrag::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rawrag::cli::main()
}
