//! `cargo xtask new diagnostic`: a file that compiles, is registered, and has a test that fails until
//! the analysis is written.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::commands::Failure;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A diagnostic over records.
    Diagnostic {
        /// Its name on the command line: lower-case letters, digits and hyphens.
        name: String,
        /// The workspace.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SkeletonError {
    #[error(
        "`{0}` is no name for a diagnostic: it begins with a lower-case letter and goes on with \
         lower-case letters, digits and single hyphens"
    )]
    Name(String),
    #[error("{} is there already", .0.display())]
    Taken(PathBuf),
    #[error("{}: {problem}", path.display())]
    Place {
        path: PathBuf,
        problem: &'static str,
    },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl SkeletonError {
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Taken(_))
    }
}

impl Arguments {
    pub(crate) fn write(&self, workspace: &Path, out: &mut impl Write) -> Result<(), Failure> {
        let What::Diagnostic { name, root } = &self.what;
        let sources = root
            .as_deref()
            .unwrap_or(workspace)
            .join("crates/rawrag-diagnostics/src");
        let path = diagnostic(&sources, name)?;
        writeln!(
            out,
            "{} is registered; its test fails until the analysis is written:",
            path.display()
        )?;
        writeln!(out, "  cargo test -p rawrag-diagnostics {}", module(name))?;
        writeln!(out, "docs/add-a-diagnostic.md goes through one.")?;
        Ok(())
    }
}

fn diagnostic(sources: &Path, name: &str) -> Result<PathBuf, SkeletonError> {
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !fits {
        return Err(SkeletonError::Name(name.to_owned()));
    }
    let path = sources.join(format!("{}.rs", module(name)));
    if path.exists() {
        return Err(SkeletonError::Taken(path));
    }
    let (library, registry) = (sources.join("lib.rs"), sources.join("registry.rs"));
    let with_module = declared(&read(&library)?, &module(name)).ok_or(SkeletonError::Place {
        path: library.clone(),
        problem: "no `mod` line to put another beside",
    })?;
    let with_line = registered(&read(&registry)?, name).ok_or(SkeletonError::Place {
        path: registry.clone(),
        problem: "no list DIAGNOSTICS that ends in `];`",
    })?;
    // The new file first: a list that names a file that is not there would not compile.
    write(&path, &file(name))?;
    write(&library, &with_module)?;
    write(&registry, &with_line)?;
    Ok(path)
}

fn module(name: &str) -> String {
    name.replace('-', "_")
}

fn constant(name: &str) -> String {
    module(name).to_uppercase()
}

/// The library's file with the module in its place among the others.
fn declared(library: &str, module: &str) -> Option<String> {
    let declares = |line: &&str| line.ends_with(';') && module_of(line).is_some();
    let after = |line: &&str| module_of(line).is_some_and(|other| other > module);
    let mut lines: Vec<&str> = library.lines().collect();
    let first = lines.iter().position(|line| declares(&line.trim_end()))?;
    let count = lines[first..]
        .iter()
        .take_while(|line| module_of(line).is_some() || line.starts_with("#["))
        .count();
    let group = &lines[first..first + count];
    let mut at = group.iter().position(after).unwrap_or(count);
    // An attribute belongs to the line below it.
    while at > 0 && group[at - 1].starts_with("#[") {
        at -= 1;
    }
    let line = format!("mod {module};");
    lines.insert(first + at, &line);
    Some(lines.join("\n") + "\n")
}

fn module_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// The registry's file with one line more.
fn registered(registry: &str, name: &str) -> Option<String> {
    let list = registry.find("pub const DIAGNOSTICS")?;
    let end = list + registry[list..].find("\n];")? + 1;
    let line = format!("    crate::{}::{},\n", module(name), constant(name));
    Some(format!("{}{line}{}", &registry[..end], &registry[end..]))
}

fn file(name: &str) -> String {
    TEMPLATE
        .replace("{name}", name)
        .replace("{CONSTANT}", &constant(name))
}

fn read(path: &Path) -> Result<String, SkeletonError> {
    fs::read_to_string(path).map_err(|source| SkeletonError::Io {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, text: &str) -> Result<(), SkeletonError> {
    fs::write(path, text).map_err(|source| SkeletonError::Io {
        path: path.to_owned(),
        source,
    })
}

const TEMPLATE: &str = include_str!("skeleton/diagnostic.rs.txt");
