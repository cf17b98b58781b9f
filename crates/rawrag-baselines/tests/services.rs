//! The wrappers of services against a server of this project's own that answers as their public
//! interfaces say, and that fails in the ways in which services fail.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rawrag_baselines::check::check;
use rawrag_baselines::known::known;
use rawrag_baselines::{Launch, Limits, MemorySystem, Namespace, ProcessSystem, Said, SystemError};
use serde_json::{Map, Value, json};

const SERVICES: [&str; 3] = ["memos", "memmachine", "evermemos"];

/// The server, killed with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// `None`, with a message, where there is no Python to run it with.
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    fn start() -> Option<Self> {
        if Command::new("python3").arg("--version").output().is_err() {
            println!("skipped: there is no python3");
            return None;
        }
        let program = format!("{}/tests/stand_ins/services.py", env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("python3")
            .arg(program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        said.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        Some(Self { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The wrapper of `system`, told of a service at this address.
fn start(system: &str, address: &str, folder: &Path) -> ProcessSystem {
    let mut settings = Map::new();
    let wait = if address.ends_with("stuck") {
        0.2
    } else {
        30.0
    };
    let given = [
        ("address", json!(address)),
        ("poll", json!(0.01)),
        ("wait", json!(wait)),
    ];
    settings.extend(given.map(|(name, value)| (name.to_owned(), value)));
    match system {
        "memmachine" => settings.insert("quiet".to_owned(), json!(0.02)),
        // As `--setting` gives it.
        "memos" => settings.insert("interval".to_owned(), json!("0")),
        _ => None,
    };
    let command = known(system)
        .unwrap()
        .command(&folder.join("systems"), &settings);
    ProcessSystem::start(Launch {
        command: command.unwrap(),
        folder: folder.join("run"),
        models: None,
        settings,
        limits: Limits::default(),
    })
    .unwrap()
}

fn said() -> Vec<Said> {
    let texts = ["The pump is mended.", "Then the orchard has water again."];
    (0..)
        .zip(texts)
        .map(|(position, text)| Said {
            position,
            session: 0,
            date: "2023-05-08 13:56".parse().ok(),
            speaker: ["Ada", "Bo"][position as usize].to_owned(),
            text: text.to_owned(),
            captions: vec!["a pump".to_owned()],
        })
        .collect()
}

fn open(system: &mut ProcessSystem) -> Result<(), SystemError> {
    let speakers = vec!["Ada".to_owned(), "Bo".to_owned()];
    let name = "c".to_owned();
    let namespace = Namespace {
        name,
        fresh: true,
        speakers,
    };
    system.open(&namespace).map(|_| ())
}

/// What comes of a search in a store of two messages.
fn searched(system: &str, address: &str) -> Result<usize, SystemError> {
    let folder = tempfile::tempdir().unwrap();
    let mut wrapper = start(system, address, folder.path());
    open(&mut wrapper)?;
    wrapper.add(&said())?;
    wrapper.ready()?;
    Ok(wrapper.search("Is the pump mended?", 5, None)?.len())
}

#[test]
fn the_wrappers_of_services_conform() {
    let Some(server) = Server::start() else {
        return;
    };
    for system in SERVICES {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("{}/good", server.address);
        let report = check(&mut start(system, &address, folder.path()), "check");
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn a_service_that_fails_is_an_error_and_never_an_empty_answer() {
    let Some(server) = Server::start() else {
        return;
    };
    for system in SERVICES {
        let outcome = |behaviour: &str| {
            let error = searched(system, &format!("{}/{behaviour}", server.address)).unwrap_err();
            assert!(matches!(error, SystemError::Refused { .. }), "{error}");
            error.to_string()
        };
        assert!(searched(system, &format!("{}/good", server.address)).unwrap() > 0);
        let failing = outcome("failing");
        assert!(
            failing.contains("status 500") && failing.contains("out of reach"),
            "{failing}"
        );
        let garbled = outcome("garbled");
        assert!(
            garbled.contains("no JSON") && garbled.contains("<html>"),
            "{garbled}"
        );
        let renamed = outcome("renamed");
        assert!(renamed.contains("the reply has no `"), "{renamed}");
        let nowhere = outcome("good/elsewhere");
        assert!(nowhere.contains("status 404"), "{nowhere}");
    }
}

#[test]
fn what_is_not_ready_in_time_is_an_error() {
    let Some(server) = Server::start() else {
        return;
    };
    // MemOS adds while it is asked to, so it is ready once it has answered.
    for system in ["memmachine", "evermemos"] {
        let error = searched(system, &format!("{}/stuck", server.address)).unwrap_err();
        let SystemError::Refused { call, reason } = &error else {
            unreachable!("{error}");
        };
        assert_eq!(*call, "ready");
        assert!(reason.contains("after 0.2 seconds"), "{reason}");
    }
}

/// mem0#5404 happens elsewhere too: a limit that is ignored.
#[test]
fn more_than_was_asked_for_is_an_error() {
    let Some(server) = Server::start() else {
        return;
    };
    for system in SERVICES {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("{}/generous", server.address);
        let mut wrapper = start(system, &address, folder.path());
        open(&mut wrapper).unwrap();
        wrapper.add(&said()).unwrap();
        wrapper.ready().unwrap();
        let error = wrapper.search("pump water the", 1, None).unwrap_err();
        assert!(
            error.to_string().contains("where 1 were asked for"),
            "{error}"
        );
    }
}

#[test]
fn a_service_without_an_address_is_refused_with_its_mend() {
    let folder = tempfile::tempdir().unwrap();
    for system in SERVICES {
        let known = known(system).unwrap();
        let refused = known.command(folder.path(), &Map::new()).unwrap_err();
        assert!(
            refused.to_string().contains("--setting address=.."),
            "{refused}"
        );
        let mut settings = Map::new();
        settings.insert("address".to_owned(), Value::from(8000));
        assert!(known.command(folder.path(), &settings).is_err());
        let refused = known.set_up(folder.path(), "python3").unwrap_err();
        assert!(
            refused.to_string().contains("nothing to set up"),
            "{refused}"
        );
    }
}
