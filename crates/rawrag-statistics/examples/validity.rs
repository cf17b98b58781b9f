//! Runs the simulations behind `docs/validity.md` and writes `behaviour.csv` and `tables.md`.
//!
//! `cargo run --release -p rawrag-statistics --example validity -- FOLDER [SAMPLES [INNER]]`

use std::path::PathBuf;

use rawrag_statistics::{Replication, validity};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(
        arguments
            .next()
            .ok_or("which folder shall the results go to?")?,
    );
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let replication = Replication {
        replicates: number(validity::SAMPLES)?,
        seed: 1,
    };
    let behaviours = validity::run(&validity::designs(), replication, number(validity::INNER)?)?;
    std::fs::write(folder.join("behaviour.csv"), validity::csv(&behaviours))?;
    std::fs::write(folder.join("tables.md"), validity::tables(&behaviours))?;
    Ok(())
}
