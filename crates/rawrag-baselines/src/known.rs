//! The systems of others that this project wraps itself, and their environments.
//!
//! Each has a pinned list of Python packages, installed by pip into a virtual environment of its
//! own, and a wrapper that ships inside this program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A system that can be set up by name.
#[derive(Debug)]
pub struct Known {
    /// Its name on the command line, and its folder below the folder of systems.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The package and version that it is.
    pub package: &'static str,
    /// What pip installs, every version pinned.
    requirements: &'static str,
    /// The wrapper's program.
    wrapper: &'static str,
}

/// The modules that the wrappers import.
const MODULES: [(&str, &str); 2] = [
    ("mem0_store.py", include_str!("../wrappers/mem0_store.py")),
    (
        "rawrag_wrapper.py",
        include_str!("../wrappers/rawrag_wrapper.py"),
    ),
];

/// Every known system.
pub static KNOWN: [Known; 2] = [
    Known {
        name: "mem0",
        about: "Mem0 2.x: an extractor that only adds, with Qdrant on disk",
        package: "mem0ai==2.2.1",
        requirements: include_str!("../wrappers/mem0_v2.txt"),
        wrapper: include_str!("../wrappers/mem0_v2.py"),
    },
    Known {
        name: "mem0-classic",
        about: "classic Mem0 1.x: ADD, UPDATE, DELETE and NONE decisions, with Qdrant on disk",
        package: "mem0ai==1.0.11",
        requirements: include_str!("../wrappers/mem0_classic.txt"),
        wrapper: include_str!("../wrappers/mem0_classic.py"),
    },
];

/// Why a system is not set up, or could not be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// It has no environment, or an unfinished or older one.
    #[error("{name} is not set up ({missing}); `rawrag system setup {name}` sets it up")]
    Missing {
        /// The system.
        name: &'static str,
        /// What is not there.
        missing: String,
    },
    /// A program of the set-up failed.
    #[error("{program} failed: {reason}")]
    Program {
        /// The program.
        program: String,
        /// The end of what it said.
        reason: String,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The known system of this name.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Known {
    /// The command that starts its wrapper, from its environment below `systems`.
    ///
    /// The wrapper's files are written beside the environment first, so that they are always this
    /// program's own.
    ///
    /// # Errors
    /// [`SetupError::Missing`] where it is not set up.
    pub fn command(&self, systems: &Path) -> Result<Vec<String>, SetupError> {
        self.locate(systems)?;
        let folder = systems.join(self.name);
        let wrapper = folder.join("wrapper.py");
        write(&wrapper, self.wrapper)?;
        for (name, module) in MODULES {
            write(&folder.join(name), module)?;
        }
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        Ok(vec![text(python(&folder)), text(wrapper)])
    }

    /// The folder of its environment.
    ///
    /// # Errors
    /// [`SetupError::Missing`] where it is not set up, or for other packages than this program pins.
    pub fn locate(&self, systems: &Path) -> Result<PathBuf, SetupError> {
        let folder = systems.join(self.name);
        let missing = |missing: String| SetupError::Missing {
            name: self.name,
            missing,
        };
        if !python(&folder).exists() {
            let python = python(&folder).display().to_string();
            return Err(missing(format!("there is no {python}")));
        }
        match fs::read_to_string(folder.join("installed.txt")) {
            Ok(installed) if installed == self.requirements => Ok(folder),
            Ok(_) => Err(missing("it holds other versions than are pinned".into())),
            Err(_) => Err(missing("its installation was not finished".into())),
        }
    }

    /// Makes its environment with `python` and installs what it needs, from where the user's pip
    /// fetches. What was there is replaced.
    ///
    /// # Errors
    /// [`SetupError::Program`] with what python or pip said.
    pub fn set_up(&self, systems: &Path, python_program: &str) -> Result<PathBuf, SetupError> {
        let folder = systems.join(self.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|source| SetupError::Io {
                path: folder.clone(),
                source,
            })?;
        }
        fs::create_dir_all(&folder).map_err(|source| SetupError::Io {
            path: folder.clone(),
            source,
        })?;
        let list = folder.join("requirements.txt");
        write(&list, self.requirements)?;
        run(Command::new(python_program)
            .args(["-m", "venv"])
            .arg(folder.join("environment")))?;
        run(Command::new(python(&folder))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .arg("--requirement")
            .arg(&list))?;
        // Written last: an interrupted installation has none.
        write(&folder.join("installed.txt"), self.requirements)?;
        Ok(folder)
    }
}

fn python(folder: &Path) -> PathBuf {
    folder.join("environment").join("bin").join("python")
}

fn run(command: &mut Command) -> Result<(), SetupError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| SetupError::Program {
        program: program.clone(),
        reason,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines.len().saturating_sub(5);
    Err(failed(lines[last..].join("\n")))
}

fn write(path: &Path, text: &str) -> Result<(), SetupError> {
    fs::write(path, text).map_err(|source| SetupError::Io {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_is_pinned_and_the_package_is_among_them() {
        for known in &KNOWN {
            let lines: Vec<&str> = known.requirements.lines().collect();
            assert!(lines.contains(&known.package), "{}", known.name);
            assert!(
                lines.iter().all(|line| line.contains("==")),
                "{}",
                known.name
            );
        }
    }

    #[test]
    fn an_unfinished_environment_is_named_with_its_mend() {
        let systems = tempfile::tempdir().unwrap();
        let mem0 = known("mem0").unwrap();
        let said = |systems: &Path| mem0.command(systems).unwrap_err().to_string();
        assert!(said(systems.path()).contains("`rawrag system setup mem0`"));
        let program = python(&systems.path().join("mem0"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(program, "").unwrap();
        assert!(said(systems.path()).contains("not finished"));
        fs::write(systems.path().join("mem0/installed.txt"), "mem0ai==1.0.0\n").unwrap();
        assert!(said(systems.path()).contains("other versions"));
    }
}
