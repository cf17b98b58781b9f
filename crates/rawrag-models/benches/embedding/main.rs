//! Embeds batches of texts and says how long each took; `compare.py` drives it.
//!
//! One argument: the model's folder. Every line of standard input is a JSON array of texts; every
//! line of output is the seconds that embedding them took, tokenising included.

use std::{
    error::Error,
    io::{Write, stdin, stdout},
    time::Instant,
};

use rawrag_models::{Embedder, Minilm};

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` and `cargo test --all-targets` pass options of their own and no folder.
    let Some(dir) = std::env::args().nth(1).filter(|arg| !arg.starts_with("--")) else {
        return Ok(());
    };
    let model = Minilm::load(dir.as_ref())?;
    for line in stdin().lines() {
        let texts: Vec<String> = serde_json::from_str(&line?)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let start = Instant::now();
        model.embed(&texts)?;
        writeln!(stdout(), "{}", start.elapsed().as_secs_f64())?;
    }
    Ok(())
}
