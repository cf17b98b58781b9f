//! Serialising and windowing whole histories.
//!
//! `cargo bench -p rawrag-chunking` reads LoCoMo and BEAM from the folder in `RAWRAG_SHARED`
//! (default `../shared` beside the workspace) and skips what is not there.

fn main() {
    divan::main();
}
