use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rawrag_corpus::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;

use crate::protocol::{Decided, Done, Exported, Found, Models, Request, Response, VERSION};
use crate::system::{
    Decision, Description, Item, MemorySystem, Namespace, Opened, Said, Stored, SystemError, Usage,
};

/// The variables of this process that a wrapper sees; every other is withheld, so that no foreign
/// key or address reroutes its calls.
const PASSED: [&str; 4] = ["PATH", "LANG", "LC_ALL", "RAWRAG_API_KEY"];

/// Variables that wrappers see whatever they are here: no telemetry, UTF-8, no byte code written.
const FIXED: [(&str, &str); 7] = [
    ("ANONYMIZED_TELEMETRY", "False"),
    ("DO_NOT_TRACK", "1"),
    ("HF_HUB_OFFLINE", "1"),
    ("MEM0_TELEMETRY", "False"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONUTF8", "1"),
];

/// The longest response, in bytes.
const LONGEST: u64 = 1 << 28;

/// What the shell runs: it sets the ceiling on memory (KiB of address space) and becomes the wrapper.
const LIMITED: &str = r#"ulimit -v "$1" && shift && exec "$@""#;

/// How a wrapper is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder that holds its conversations, its home and its error stream. One process of this
    /// program owns it at a time.
    pub folder: PathBuf,
    /// The models that it is told to use.
    pub models: Option<Models>,
    /// The system's own settings.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// What it may take.
    pub limits: Limits,
}

/// What a wrapper may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a call may take before the wrapper is killed.
    pub call: Duration,
    /// MiB of address space.
    pub memory_mib: u64,
}

impl Default for Limits {
    /// Ten minutes a call, 8 GiB.
    fn default() -> Self {
        Self {
            call: Duration::from_secs(600),
            memory_mib: 8 * 1024,
        }
    }
}

/// A system behind the wrapper protocol, one process a conversation.
///
/// A wrapper that crashes, hangs or answers what is no response is killed with everything that it
/// started, and every call until the next [`MemorySystem::open`] fails with the reason.
#[derive(Debug)]
pub struct ProcessSystem {
    launch: Launch,
    description: Description,
    /// Held as long as this value lives.
    _owner: File,
    wrapper: Result<Wrapper, SystemError>,
}

/// A running wrapper.
#[derive(Debug)]
struct Wrapper {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
    limit: Duration,
    stderr: String,
}

impl ProcessSystem {
    /// Starts the wrapper and asks it what it is.
    ///
    /// # Errors
    /// When its folder is another's, or it does not start, or answers something else.
    pub fn start(mut launch: Launch) -> Result<Self, SystemError> {
        for folder in ["home", "tmp", "store"] {
            let folder = launch.folder.join(folder);
            fs::create_dir_all(&folder).map_err(|error| io(&folder, &error))?;
        }
        launch.folder =
            fs::canonicalize(&launch.folder).map_err(|error| io(&launch.folder, &error))?;
        let owner = own(&launch.folder)?;
        let (wrapper, description) = Wrapper::spawn(&launch)?;
        Ok(Self {
            launch,
            description,
            _owner: owner,
            wrapper: Ok(wrapper),
        })
    }

    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, SystemError> {
        let wrapper = self.wrapper.as_mut().map_err(|error| error.clone())?;
        let outcome = wrapper.call(request);
        if let Err(error @ (SystemError::Ended { .. } | SystemError::Contract { .. })) = &outcome {
            self.wrapper = Err(error.clone());
        }
        outcome
    }
}

impl MemorySystem for ProcessSystem {
    fn description(&self) -> &Description {
        &self.description
    }

    fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError> {
        namespace.check()?;
        if !namespace.fresh && !self.description.capabilities.persistence {
            return Err(SystemError::Unsupported("taking up a closed conversation"));
        }
        let folder = self.launch.folder.join("store").join(&namespace.name);
        let occupied = fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some());
        if namespace.fresh && occupied {
            let namespace = folder.display().to_string();
            return Err(SystemError::Occupied { namespace });
        }
        fs::create_dir_all(&folder).map_err(|error| io(&folder, &error))?;
        if self.wrapper.is_err() {
            let (wrapper, description) = Wrapper::spawn(&self.launch)?;
            if description != self.description {
                return Err(SystemError::Contract {
                    call: "hello",
                    problem: "the wrapper describes itself otherwise than before".to_owned(),
                });
            }
            self.wrapper = Ok(wrapper);
        }
        let opened: Opened = self.call(&Request::Open {
            namespace: namespace.name.clone(),
            folder: folder.display().to_string(),
            fresh: namespace.fresh,
            speakers: namespace.speakers.clone(),
            models: self.launch.models.clone(),
            settings: self.launch.settings.clone(),
        })?;
        opened.check(namespace)?;
        Ok(opened)
    }

    fn add(&mut self, unit: &[Said]) -> Result<(), SystemError> {
        let messages = unit.to_vec();
        self.call(&Request::Add { messages }).map(|Done {}| ())
    }

    fn ready(&mut self) -> Result<(), SystemError> {
        self.call(&Request::Ready {}).map(|Done {}| ())
    }

    fn search(
        &mut self,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        let question = question.to_owned();
        let request = Request::Search {
            question,
            k,
            cutoff,
        };
        self.call(&request).map(|Found { items }| items)
    }

    fn export(&mut self) -> Result<Vec<Stored>, SystemError> {
        if !self.description.capabilities.export {
            return Err(SystemError::Unsupported("export"));
        }
        self.call(&Request::Export {})
            .map(|Exported { items }| items)
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, SystemError> {
        if !self.description.capabilities.decisions {
            return Ok(Vec::new());
        }
        self.call(&Request::Decisions {})
            .map(|Decided { decisions }| decisions)
    }

    fn usage(&mut self) -> Result<Usage, SystemError> {
        self.call(&Request::Usage {})
    }

    fn close(&mut self) -> Result<(), SystemError> {
        self.call(&Request::Close {}).map(|Done {}| ())?;
        let closed = Err(SystemError::Refused {
            call: "call",
            reason: "no conversation is open".to_owned(),
        });
        match std::mem::replace(&mut self.wrapper, closed) {
            Ok(wrapper) => wrapper.end(),
            Err(_) => Ok(()),
        }
    }
}

impl Wrapper {
    fn spawn(launch: &Launch) -> Result<(Self, Description), SystemError> {
        let stderr = launch.folder.join("stderr.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&stderr)
            .map_err(|error| io(&stderr, &error))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", LIMITED, "sh"])
            .arg((launch.limits.memory_mib * 1024).to_string())
            .args(&launch.command)
            .env_clear()
            .envs(
                PASSED
                    .iter()
                    .filter_map(|&name| Some((name, std::env::var_os(name)?))),
            )
            .envs(FIXED)
            .env("HOME", launch.folder.join("home"))
            .env("TMPDIR", launch.folder.join("tmp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0);
        let ended = |reason: String| SystemError::Ended {
            call: "hello",
            reason,
            stderr: stderr.display().to_string(),
        };
        let mut child = command.spawn().map_err(|error| ended(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ended("its streams could not be opened".to_owned()));
        };
        let (sender, lines) = sync_channel(1);
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = output.by_ref().take(LONGEST).read_until(b'\n', &mut line);
                if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut wrapper = Self {
            child,
            input,
            lines,
            limit: launch.limits.call,
            stderr: stderr.display().to_string(),
        };
        let hello = Request::Hello { protocol: VERSION };
        let description = wrapper.call(&hello)?;
        Ok((wrapper, description))
    }

    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, SystemError> {
        let call = request.name();
        let contract = |problem: String| SystemError::Contract { call, problem };
        let mut line = serde_json::to_vec(request).map_err(|error| contract(error.to_string()))?;
        line.push(b'\n');
        // A wrapper that is gone is told from its output, which says more than the broken pipe.
        let _ = self
            .input
            .write_all(&line)
            .and_then(|()| self.input.flush());
        let line = match self.lines.recv_timeout(self.limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                let reason = format!(
                    "no response in {} seconds; the wrapper was killed",
                    self.limit.as_secs_f64()
                );
                return Err(self.ended(call, reason));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.exit_status();
                let reason = status.map_or_else(
                    || "the wrapper closed its output and was killed".to_owned(),
                    |status| format!("the wrapper ended ({status}) without a response"),
                );
                return Err(self.ended(call, reason));
            }
        };
        if line.last() != Some(&b'\n') {
            let reason = format!("the response was cut off after {} bytes", line.len());
            return Err(self.ended(call, reason));
        }
        let shown = String::from_utf8_lossy(&line)
            .chars()
            .take(120)
            .collect::<String>();
        match serde_json::from_slice(&line) {
            Ok(Response::Ok(value)) => serde_json::from_value(value)
                .map_err(|error| contract(format!("{error}, in {}", shown.trim_end()))),
            Ok(Response::Error(reason)) => Err(SystemError::Refused { call, reason }),
            Err(error) => Err(contract(format!(
                "no response of the protocol ({error}): {}",
                shown.trim_end()
            ))),
        }
    }

    /// Waits for the process after its response to `close`.
    fn end(mut self) -> Result<(), SystemError> {
        match self.exit_status() {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.ended("close", format!("the wrapper ended ({status})"))),
            None => Err(self.ended("close", "the wrapper did not end and was killed".to_owned())),
        }
    }

    /// How the process ended, waiting as long as a call may take; `None` if it had to be killed.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < self.limit {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill();
        None
    }

    /// Kills the process and all that it started.
    fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }

    fn ended(&self, call: &'static str, reason: String) -> SystemError {
        SystemError::Ended {
            call,
            reason,
            stderr: self.stderr.clone(),
        }
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes this process the folder's owner, until the file is closed.
fn own(folder: &Path) -> Result<File, SystemError> {
    let path = folder.join("owner");
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| io(&path, &error))?;
    if file.try_lock().is_err() {
        let holder = fs::read_to_string(&path).unwrap_or_default();
        return Err(SystemError::Held {
            folder: folder.display().to_string(),
            holder: holder.trim().to_owned(),
        });
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|error| io(&path, &error))?;
    Ok(file)
}

fn io(path: &Path, error: &std::io::Error) -> SystemError {
    SystemError::Io(format!("{}: {error}", path.display()))
}
