//! The systems of others that this project wraps itself, and what each needs before it runs.
//!
//! Each has a wrapper that ships inside this program. What runs in a Python environment of its own
//! has a pinned list of packages, which pip installs there; what is a service has an address; what
//! is on no package index has a checkout of its source, which the user made ready.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

/// A system that is known by name.
#[derive(Debug)]
pub struct Known {
    /// Its name on the command line, and its folder below the folder of systems.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The package and version that it is, or the interface that its wrapper speaks.
    pub package: &'static str,
    /// What must be there before it runs.
    pub needs: Needs,
    /// The wrapper's program.
    wrapper: &'static str,
}

/// What must be there before a system runs.
#[derive(Debug)]
pub enum Needs {
    /// A Python environment that [`Known::set_up`] makes.
    Environment {
        /// The oldest Python that its packages take: major and minor version.
        python: (u32, u32),
        /// What pip installs: every package that is needed, each version pinned. Nothing else is
        /// installed, whatever the packages themselves ask for.
        requirements: &'static str,
    },
    /// A running service, whose address stands in the setting `address`.
    Service,
    /// A checkout of its source, whose folder stands in the setting `checkout`; the Python that has
    /// what it needs in `python`, else that of the checkout's `.venv`, else `python3`.
    Checkout,
}

/// Whether a system can run here.
#[derive(Debug)]
pub enum State {
    /// Its environment is in this folder.
    Ready(PathBuf),
    /// It has no environment, or an unfinished or older one.
    Missing(SetupError),
    /// An experiment has to name the service.
    NeedsAddress,
    /// An experiment has to name the checkout.
    NeedsCheckout,
}

/// The modules that the wrappers import.
const MODULES: [(&str, &str); 5] = [
    (
        "emem_checkout.py",
        include_str!("../wrappers/emem_checkout.py"),
    ),
    ("mem0_store.py", include_str!("../wrappers/mem0_store.py")),
    (
        "rawrag_checkout.py",
        include_str!("../wrappers/rawrag_checkout.py"),
    ),
    (
        "rawrag_service.py",
        include_str!("../wrappers/rawrag_service.py"),
    ),
    (
        "rawrag_wrapper.py",
        include_str!("../wrappers/rawrag_wrapper.py"),
    ),
];

/// Every known system.
pub static KNOWN: [Known; 11] = [
    Known {
        name: "mem0",
        about: "Mem0 2.x: an extractor that only adds, with Qdrant on disk",
        package: "mem0ai==2.2.1",
        needs: Needs::Environment {
            python: (3, 11),
            requirements: include_str!("../wrappers/mem0_v2.txt"),
        },
        wrapper: include_str!("../wrappers/mem0_v2.py"),
    },
    Known {
        name: "mem0-classic",
        about: "classic Mem0 1.x: ADD, UPDATE, DELETE and NONE decisions, with Qdrant on disk",
        package: "mem0ai==1.0.11",
        needs: Needs::Environment {
            python: (3, 11),
            requirements: include_str!("../wrappers/mem0_classic.txt"),
        },
        wrapper: include_str!("../wrappers/mem0_classic.py"),
    },
    Known {
        name: "simplemem",
        about: "SimpleMem: windows of messages become entries, with LanceDB on disk",
        package: "simplemem==0.1.0",
        needs: Needs::Environment {
            python: (3, 11),
            requirements: include_str!("../wrappers/simplemem_0_1.txt"),
        },
        wrapper: include_str!("../wrappers/simplemem_0_1.py"),
    },
    Known {
        name: "a-mem",
        about: "A-MEM: every message a note, which may rewrite its neighbours, with Chroma on disk",
        package: "a-mem==0.2.6",
        needs: Needs::Environment {
            python: (3, 11),
            requirements: include_str!("../wrappers/a_mem_0_2.txt"),
        },
        wrapper: include_str!("../wrappers/a_mem_0_2.py"),
    },
    Known {
        name: "memu",
        about: "MemU: items of four types from every message, with SQLite on disk",
        package: "memu-py==1.5.1",
        needs: Needs::Environment {
            python: (3, 13),
            requirements: include_str!("../wrappers/memu_1_5.txt"),
        },
        wrapper: include_str!("../wrappers/memu_1_5.py"),
    },
    Known {
        name: "memos",
        about: "MemOS: text memories and preferences, a cube a speaker",
        package: "HTTP interface of MemOS 2.0",
        needs: Needs::Service,
        wrapper: include_str!("../wrappers/memos_http.py"),
    },
    Known {
        name: "memmachine",
        about: "MemMachine: episodes, their summaries and semantic features",
        package: "HTTP interface v2 of MemMachine",
        needs: Needs::Service,
        wrapper: include_str!("../wrappers/memmachine_http.py"),
    },
    Known {
        name: "evermemos",
        about: "EverMemOS: episodes of a conversation",
        package: "HTTP interface v1 of EverMemOS",
        needs: Needs::Service,
        wrapper: include_str!("../wrappers/evermemos_http.py"),
    },
    Known {
        name: "emem",
        about: "EMem: elementary discourse units",
        package: "from a clone of KevinSRR/EMem",
        needs: Needs::Checkout,
        wrapper: include_str!("../wrappers/emem_dense.py"),
    },
    Known {
        name: "emem-g",
        about: "EMem-G: the same, with personalized PageRank over their graph",
        package: "from a clone of KevinSRR/EMem",
        needs: Needs::Checkout,
        wrapper: include_str!("../wrappers/emem_graph.py"),
    },
    Known {
        name: "memora",
        about: "Memora: memories under primary abstractions and cues",
        package: "from a clone of microsoft/Memora",
        needs: Needs::Checkout,
        wrapper: include_str!("../wrappers/memora_checkout.py"),
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
    /// A setting that says where it is was not given, or is no text.
    #[error(
        "{name} needs the setting `{setting}`, {what}; give it under [memory.settings], or as \
         --setting {setting}=.."
    )]
    Setting {
        /// The system.
        name: &'static str,
        /// The setting.
        setting: &'static str,
        /// What the setting says.
        what: &'static str,
    },
    /// The folder that a setting names is not there.
    #[error(
        "{name}: there is no folder {}; clone its repository and name that folder as the setting \
         `checkout`",
        folder.display()
    )]
    Checkout {
        /// The system.
        name: &'static str,
        /// The folder.
        folder: PathBuf,
    },
    /// It has no environment that this program makes.
    #[error("{name} has nothing to set up here: it needs the setting `{setting}`, {what}")]
    NothingToSetUp {
        /// The system.
        name: &'static str,
        /// The setting.
        setting: &'static str,
        /// What the setting says.
        what: &'static str,
    },
    /// The Python at hand is too old.
    #[error(
        "{name} needs Python {}.{} or later, and {program} is {found}; name one with `--python \
         PROGRAM`",
        wanted.0,
        wanted.1
    )]
    Python {
        /// The system.
        name: &'static str,
        /// The oldest that will do.
        wanted: (u32, u32),
        /// The program.
        program: String,
        /// What it is.
        found: String,
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

/// The setting that names a service, and what it says.
const ADDRESS: (&str, &str) = ("address", "the address of a running service");
/// The setting that names a checkout, and what it says.
const CHECKOUT: (&str, &str) = ("checkout", "the folder of a checkout of its source");

/// The known system of this name.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Known {
    /// The command that starts its wrapper under these settings.
    ///
    /// The wrapper's files are written into its folder below `systems` first, so that they are
    /// always this program's own.
    ///
    /// # Errors
    /// [`SetupError::Missing`] where it is not set up, [`SetupError::Setting`] or
    /// [`SetupError::Checkout`] where no setting says where it is.
    pub fn command(
        &self,
        systems: &Path,
        settings: &Map<String, Value>,
    ) -> Result<Vec<String>, SetupError> {
        let python = match self.needs {
            Needs::Environment { .. } => python(&self.locate(systems)?),
            Needs::Service => {
                self.setting(settings, ADDRESS)?;
                "python3".into()
            }
            Needs::Checkout => {
                let checkout = Path::new(self.setting(settings, CHECKOUT)?);
                if !checkout.is_dir() {
                    return Err(SetupError::Checkout {
                        name: self.name,
                        folder: checkout.to_owned(),
                    });
                }
                let own = checkout.join(".venv").join("bin").join("python");
                match settings.get("python").and_then(Value::as_str) {
                    Some(named) => named.into(),
                    None if own.exists() => own,
                    None => "python3".into(),
                }
            }
        };
        let folder = systems.join(self.name);
        fs::create_dir_all(&folder).map_err(|source| SetupError::Io {
            path: folder.clone(),
            source,
        })?;
        let wrapper = folder.join("wrapper.py");
        write(&wrapper, self.wrapper)?;
        for (name, module) in MODULES {
            write(&folder.join(name), module)?;
        }
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        Ok(vec![text(python), text(wrapper)])
    }

    fn setting<'a>(
        &self,
        settings: &'a Map<String, Value>,
        (setting, what): (&'static str, &'static str),
    ) -> Result<&'a str, SetupError> {
        let text = settings.get(setting).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
            .ok_or(SetupError::Setting {
                name: self.name,
                setting,
                what,
            })
    }

    /// Whether it can run, and what it lacks.
    pub fn state(&self, systems: &Path) -> State {
        match self.needs {
            Needs::Environment { .. } => match self.locate(systems) {
                Ok(folder) => State::Ready(folder),
                Err(error) => State::Missing(error),
            },
            Needs::Service => State::NeedsAddress,
            Needs::Checkout => State::NeedsCheckout,
        }
    }

    /// The folder of its environment.
    fn locate(&self, systems: &Path) -> Result<PathBuf, SetupError> {
        let requirements = self.requirements()?;
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
            Ok(installed) if installed == requirements => Ok(folder),
            Ok(_) => Err(missing("it holds other versions than are pinned".into())),
            Err(_) => Err(missing("its installation was not finished".into())),
        }
    }

    fn requirements(&self) -> Result<&'static str, SetupError> {
        let (setting, what) = match self.needs {
            Needs::Environment { requirements, .. } => return Ok(requirements),
            Needs::Service => ADDRESS,
            Needs::Checkout => CHECKOUT,
        };
        Err(SetupError::NothingToSetUp {
            name: self.name,
            setting,
            what,
        })
    }

    /// Makes its environment with `python` and installs what it needs, from where the user's pip
    /// fetches. What was there is replaced.
    ///
    /// # Errors
    /// [`SetupError::NothingToSetUp`] for a service or a checkout, [`SetupError::Python`] where
    /// `python` is too old, [`SetupError::Program`] with what python or pip said.
    pub fn set_up(&self, systems: &Path, python_program: &str) -> Result<PathBuf, SetupError> {
        let requirements = self.requirements()?;
        self.check_python(python_program)?;
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
        write(&list, requirements)?;
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
                "--no-deps",
            ])
            .arg("--requirement")
            .arg(&list))?;
        // Written last: an interrupted installation has none.
        write(&folder.join("installed.txt"), requirements)?;
        Ok(folder)
    }

    /// Refuses a Python that is older than the packages take: pip would only say that it finds no
    /// version.
    fn check_python(&self, program: &str) -> Result<(), SetupError> {
        let Needs::Environment { python: wanted, .. } = self.needs else {
            return Ok(());
        };
        let script = "import sys; print(\"%d.%d.%d\" % sys.version_info[:3])";
        let said = run(Command::new(program).args(["-c", script]))?;
        let found = said.trim().to_owned();
        let mut numbers = found.split('.').map(|number| number.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match version >= wanted {
            true => Ok(()),
            false => Err(SetupError::Python {
                name: self.name,
                wanted,
                program: program.to_owned(),
                found,
            }),
        }
    }
}

fn python(folder: &Path) -> PathBuf {
    folder.join("environment").join("bin").join("python")
}

/// Runs a program and returns what it printed.
fn run(command: &mut Command) -> Result<String, SetupError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| SetupError::Program {
        program: program.clone(),
        reason,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
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
            let Needs::Environment { requirements, .. } = known.needs else {
                continue;
            };
            let lines: Vec<&str> = requirements.lines().collect();
            assert!(lines.contains(&known.package), "{}", known.name);
            assert!(
                lines.iter().all(|line| line.contains("==")),
                "{}",
                known.name
            );
        }
    }

    /// A Python in shell that says it is `version`, makes environments of itself, and whose pip does
    /// what `pip` says.
    #[cfg(unix)]
    fn pretended(folder: &Path, version: &str, pip: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join(format!("python-{version}"));
        let script = format!(
            "#!/bin/sh\ncase \"$2\" in\nvenv) mkdir -p \"$3/bin\" && cp \"$0\" \"$3/bin/python\";;\n\
             pip) echo \"$@\" > \"$(dirname \"$0\")/asked\"; {pip};;\n*) echo {version};;\nesac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[test]
    #[cfg(unix)]
    fn a_set_up_system_has_every_pinned_package_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let systems = folder.path().join("systems");
        let python_program = pretended(folder.path(), "3.13.0", "exit 0");
        for known in &KNOWN {
            let Needs::Environment { requirements, .. } = known.needs else {
                continue;
            };
            let at = known.set_up(&systems, &python_program).unwrap();
            assert!(matches!(known.state(&systems), State::Ready(ready) if ready == at));
            let asked = fs::read_to_string(at.join("environment/bin/asked")).unwrap();
            assert!(asked.contains("--no-deps"), "{asked}");
            assert!(asked.contains("requirements.txt"), "{asked}");
            let list = fs::read_to_string(at.join("requirements.txt")).unwrap();
            assert_eq!(list, requirements);
            let command = known.command(&systems, &Map::new()).unwrap();
            assert_eq!(Path::new(&command[0]), python(&at));
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_failed_installation_says_why_and_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let pip = "echo 'no matching distribution' >&2; exit 1";
        let python_program = pretended(folder.path(), "3.12.1", pip);
        let simplemem = known("simplemem").unwrap();
        let failed = simplemem.set_up(folder.path(), &python_program);
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("no matching distribution"), "{failed}");
        let State::Missing(missing) = simplemem.state(folder.path()) else {
            unreachable!("it is not set up");
        };
        assert!(missing.to_string().contains("not finished"), "{missing}");
    }

    #[test]
    #[cfg(unix)]
    fn a_python_that_is_too_old_is_refused_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let systems = folder.path().join("systems");
        let memu = known("memu").unwrap();
        let new = pretended(folder.path(), "3.13.0", "exit 0");
        memu.set_up(&systems, &new).unwrap();
        let old = pretended(folder.path(), "3.11.2", "exit 0");
        let refused = memu.set_up(&systems, &old).unwrap_err().to_string();
        assert!(refused.contains("needs Python 3.13 or later"), "{refused}");
        assert!(refused.contains("is 3.11.2"), "{refused}");
        assert!(refused.contains("--python"), "{refused}");
        assert!(matches!(memu.state(&systems), State::Ready(_)));
    }

    #[test]
    fn an_unfinished_environment_is_named_with_its_mend() {
        let systems = tempfile::tempdir().unwrap();
        let mem0 = known("mem0").unwrap();
        let none = Map::new();
        let said = |systems: &Path| mem0.command(systems, &none).unwrap_err().to_string();
        assert!(said(systems.path()).contains("`rawrag system setup mem0`"));
        let program = python(&systems.path().join("mem0"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(program, "").unwrap();
        assert!(said(systems.path()).contains("not finished"));
        fs::write(systems.path().join("mem0/installed.txt"), "mem0ai==1.0.0\n").unwrap();
        assert!(said(systems.path()).contains("other versions"));
    }
}
