//! Runs the simulations behind `docs/validity.md` and writes its numbers as CSV to standard output.
//!
//! `cargo run --release -p rawrag-statistics --example validity -- [SAMPLES [INNER]]`

#![expect(clippy::print_stdout, reason = "its output is the result")]

use rawrag_statistics::{Replication, validity};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (samples, inner) = (number(validity::SAMPLES)?, number(validity::INNER)?);
    let replication = Replication {
        replicates: samples,
        seed: 1,
    };
    let behaviours = validity::run(&validity::designs(), replication, inner)?;
    print!("{}", validity::csv(&behaviours));
    Ok(())
}
