//! The program under test: the command line as `rawrag` ships it, built in this package because
//! cargo tells tests only of their own package's programs.

use std::process::ExitCode;

fn main() -> ExitCode {
    rawrag::cli::main()
}
