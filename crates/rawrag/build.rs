//! Fingerprints the sources that decide what a run's records say, so that a run taken up by other
//! code is refused, whether or not that code was committed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Folders and files below `crates/` whose content matters.
const SOURCES: [&str; 25] = [
    "rawrag-baselines/src",
    "rawrag-corpus/src",
    "rawrag-chunking/src",
    "rawrag-diagnostics/src/oracle",
    "rawrag-models/src/bert.rs",
    "rawrag-models/src/cross_encoder.rs",
    "rawrag-models/src/kernels.rs",
    "rawrag-models/src/minilm.rs",
    "rawrag-models/src/tokenizer.rs",
    "rawrag-models/src/weights.rs",
    "rawrag-prompts/src",
    "rawrag-retrieval/src",
    "rawrag-scoring/src",
    "rawrag/src/answering.rs",
    "rawrag/src/assessing.rs",
    "rawrag/src/episodes.rs",
    "rawrag/src/evidence.rs",
    "rawrag/src/extracting.rs",
    "rawrag/src/grading.rs",
    "rawrag/src/judging.rs",
    "rawrag/src/memory.rs",
    "rawrag/src/oracle.rs",
    "rawrag/src/pipeline.rs",
    "rawrag/src/pruning.rs",
    "rawrag/src/selecting.rs",
];

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let mut hash = Sha256::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed=../{source}");
        for file in files(&crates.join(source))? {
            hash.update(fs::read(file)?);
        }
    }
    let digest: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=RAWRAG_SOURCES={digest}");

    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!(
        "cargo::rustc-env=RAWRAG_TOOLCHAIN={}",
        version.unwrap_or_default()
    );
    Ok(())
}

/// The file itself, or all below a folder in the order of their names.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        found.extend(files(&entry)?);
    }
    Ok(found)
}
