//! Searches an exact index and says how long it took; `compare.py` drives it.
//!
//! Arguments: a file of f32 row vectors end to end, their dimension, and how many rows to return.
//! Every line of standard input names a file of queries. Every line of output is JSON: the seconds
//! of each query alone, the seconds of all at once, and the rows found.

use std::error::Error;
use std::fs;
use std::io::{Write, stdin, stdout};
use std::time::Instant;

use rawrag_retrieval::{Scored, VectorIndex};

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` and `cargo test --all-targets` pass options of their own and no file.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, dimension, n] = &arguments[..] else {
        return Ok(());
    };
    let (dimension, n) = (dimension.parse()?, n.parse()?);
    let mut index = VectorIndex::new(dimension);
    index.append(&vectors(rows)?)?;
    for line in stdin().lines() {
        let queries = vectors(&line?)?;
        let mut alone = Vec::new();
        let mut found = Vec::new();
        for query in queries.chunks_exact(dimension) {
            let begun = Instant::now();
            let top = index.top(query, n)?;
            alone.push(begun.elapsed().as_secs_f64());
            found.push(top);
        }
        let begun = Instant::now();
        let together = index.top_many(&queries, n)?;
        let at_once = begun.elapsed().as_secs_f64();
        if together != found {
            return Err("one at a time and all at once differ".into());
        }
        let rows = |top: &Vec<Scored>| top.iter().map(|s| s.row).collect();
        let rows: Vec<Vec<u32>> = found.iter().map(rows).collect();
        let line = serde_json::json!({ "alone": alone, "at_once": at_once, "rows": rows });
        writeln!(stdout(), "{line}")?;
    }
    Ok(())
}

fn vectors(file: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = fs::read(file).map_err(|reason| format!("{file}: {reason}"))?;
    let (floats, _) = bytes.as_chunks();
    Ok(floats
        .iter()
        .map(|&four| f32::from_le_bytes(four))
        .collect())
}
