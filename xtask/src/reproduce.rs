use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rawrag_paper::claims::{self, Statements};
use rawrag_paper::definition::{self, Place, What};
use rawrag_paper::figure::{Figure, Numbers};
use rawrag_paper::{Format, Only, Runs, page};

use crate::commands::{Failure, evaluate};

/// Every file that reproducing writes, by its path under the output folder.
pub(crate) fn files(
    folder: &Path,
    places: &[Place],
    runs: &mut Runs,
) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let mut files = BTreeMap::new();
    let tables = evaluate(places, runs)?;
    for (place, table) in places.iter().zip(&tables) {
        for (extension, format) in [
            ("md", Format::Markdown),
            ("csv", Format::Csv),
            ("tex", Format::Latex),
            ("json", Format::Json),
        ] {
            let name = format!("{}.{extension}", place.stem());
            files.insert(
                Path::new(&place.paper).join(name),
                table.render(format, Only::Beside),
            );
        }
    }
    let statements = Statements::read(folder)?;
    let mut figures = Vec::new();
    for place in definition::find(folder, What::Figure)? {
        let figure = Figure::load(&place)?;
        let numbers = Numbers {
            statements: &statements,
            tables: &tables,
        };
        let drawn = figure.draw(&numbers, runs)?;
        let name = format!("{}.svg", place.stem());
        files.insert(Path::new(&place.paper).join(name), drawn.svg.clone());
        figures.push((figure, drawn));
    }
    let judged = statements.judge()?;
    files.insert(
        "claims.csv".into(),
        claims::table(&judged).render(Format::Csv),
    );
    files.insert("index.html".into(), page(&tables, &figures, &judged, runs));
    Ok(files)
}

/// Pixels for each unit of a figure: 640 units are a column of 8.5 cm at 380 dots an inch.
#[cfg(feature = "png")]
const SCALE: f32 = 2.0;

/// Writes a figure as PNG.
#[cfg(feature = "png")]
pub(crate) fn write_png(svg: &str, path: &Path) -> Result<(), Failure> {
    let pixels = rawrag_paper::png(svg, SCALE)?;
    fs::write(path, pixels).map_err(|source| Failure::Write {
        path: path.to_owned(),
        source,
    })
}

/// Writes a PNG beside every SVG among the files.
#[cfg(feature = "png")]
pub(crate) fn write_pngs(files: &BTreeMap<PathBuf, String>, to: &Path) -> Result<(), Failure> {
    let pictures = files
        .iter()
        .filter(|(name, _)| name.extension().is_some_and(|e| e == "svg"));
    for (name, svg) in pictures {
        write_png(svg, &to.join(name).with_extension("png"))?;
    }
    Ok(())
}

/// Writes the files, each aside and then renamed into place.
pub(crate) fn write(
    files: &BTreeMap<PathBuf, String>,
    to: &Path,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for (name, text) in files {
        let path = to.join(name);
        let aside = path.with_added_extension("part");
        let failed = |source| Failure::Write {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(path.parent().unwrap_or(to)).map_err(failed)?;
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(failed)?;
    }
    Ok(writeln!(out, "{} files in {}", files.len(), to.display())?)
}

/// The kinds of file that are kept in the repository, one of each table and figure that a diff
/// shows readably; the others are made of the same sheets.
const KEPT: [&str; 3] = ["md", "csv", "svg"];

/// Names every kept file that is missing, differs or is not written any more; fails if there is
/// one.
pub(crate) fn check(
    files: &BTreeMap<PathBuf, String>,
    at: &Path,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let mut same = true;
    let kept = |name: &Path| {
        let extension = name.extension().and_then(|e| e.to_str());
        extension.is_some_and(|extension| KEPT.contains(&extension))
    };
    for path in held(at)? {
        let name = path.strip_prefix(at).unwrap_or(&path);
        if kept(name) && !files.contains_key(name) {
            same = false;
            writeln!(out, "{} is not written any more", path.display())?;
        }
    }
    for (name, text) in files.iter().filter(|(name, _)| kept(name)) {
        let held = fs::read_to_string(at.join(name)).ok();
        if held.as_ref() != Some(text) {
            same = false;
            let word = if held.is_some() {
                "differs"
            } else {
                "is missing"
            };
            writeln!(out, "{} {word}", at.join(name).display())?;
        }
    }
    Ok(if same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The files in a folder and in its folders.
fn held(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |source| Failure::Write {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(held(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
