//! What LaTeX a table becomes is typeset here by LaTeX itself.

use std::path::Path;
use std::process::Command;

use rawrag_paper::definition::{self, What};
use rawrag_paper::{Format, Only, Runs, Table};

#[test]
fn every_table_is_typeset_within_the_line() {
    if Command::new("pdflatex").arg("--version").output().is_err() {
        eprintln!("skipped: pdflatex is not installed");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut runs = Runs::new(&root.join("data/runs"));
    let mut document = String::from(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage[utf8]{inputenc}\n\
         \\usepackage{array,booktabs,graphicx}\n\\begin{document}\n",
    );
    for place in definition::find(&root.join("paper-tables"), What::Table).unwrap() {
        let table = Table::evaluate(&place.load().unwrap(), &mut runs).unwrap();
        document += &table.render(Format::Latex, Only::Beside);
        document += "\\clearpage\n";
    }
    document += "\\end{document}\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.tex"), document).unwrap();
    let output = Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "all.tex"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{log}");
    let wide: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("Overfull \\hbox"))
        .collect();
    assert!(wide.is_empty(), "{wide:#?}");
}
