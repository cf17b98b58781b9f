use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rawrag_statistics::{Replication, ResamplingError, validity};

/// Arguments of `validity`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where `behaviour.csv` and `tables.md` go [default: docs/validity].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Samples a design.
    #[arg(long, default_value_t = validity::SAMPLES as u32, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Replicates a bootstrap.
    #[arg(long, default_value_t = validity::INNER as u32, value_parser = clap::value_parser!(u32).range(1..))]
    replicates: u32,
    /// Seed of every random draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Why the simulations are not on disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValidityError {
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Arguments {
    /// Simulates all designs and writes both files, the earlier ones staying until new ones are
    /// complete.
    pub(crate) fn write(&self, usual: &Path, out: &mut impl Write) -> Result<(), ValidityError> {
        let folder = self.out.as_deref().unwrap_or(usual);
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| ValidityError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let replication = Replication {
            replicates: self.samples as usize,
            seed: self.seed,
        };
        let inner = self.replicates as usize;
        let behaviours = validity::run(&validity::designs(), replication, inner)?;
        for (name, text) in [
            ("behaviour.csv", validity::csv(&behaviours)),
            ("tables.md", validity::tables(&behaviours)),
        ] {
            let path = folder.join(name);
            let aside = folder.join(format!("{name}.part"));
            fs::write(&aside, text).map_err(failed(&aside))?;
            fs::rename(&aside, &path).map_err(failed(&path))?;
            writeln!(out, "{}", path.display()).map_err(failed(&path))?;
        }
        Ok(())
    }
}
