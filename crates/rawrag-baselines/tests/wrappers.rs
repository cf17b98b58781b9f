//! The wrapper protocol against real child processes.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rawrag_baselines::check::{Verdict, check};
use rawrag_baselines::{
    HttpSystem, Launch, Limits, MemorySystem, Namespace, ProcessSystem, Remote, Said, SystemError,
};

fn launch(command: &[&str], folder: &Path) -> Launch {
    Launch {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        folder: folder.to_owned(),
        models: None,
        settings: serde_json::Map::new(),
        limits: Limits::default(),
    }
}

fn example() -> String {
    format!("{}/wrappers/example.py", env!("CARGO_MANIFEST_DIR"))
}

/// Whether there is a Python to run the example with.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

/// A wrapper in shell: it answers hello, then does what `then` says for every other line.
fn shell(then: &str) -> Vec<String> {
    let capabilities = r#"{"dates":false,"speakers":false,"cutoff":false,"provenance":false,"deletion":false,"export":true,"persistence":false,"decisions":false}"#;
    let hello = format!(
        r#"{{"ok":{{"name":"odd","version":"1","unit":"session","capabilities":{capabilities}}}}}"#
    );
    let script = format!(
        r#"while read -r line; do case "$line" in *'"hello"'*) echo '{hello}';; *'"open"'*) echo '{{"ok":{{"perspectives":1}}}}';; *) {then};; esac; done"#
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

fn odd(then: &str, folder: &Path) -> ProcessSystem {
    let mut launch = launch(&[], folder);
    launch.command = shell(then);
    launch.limits.call = Duration::from_millis(if then.contains("hang") { 300 } else { 20_000 });
    let mut system = ProcessSystem::start(launch).unwrap();
    system.open(&namespace("c")).unwrap();
    system
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        name: name.to_owned(),
        fresh: true,
        speakers: vec!["Runa".to_owned()],
    }
}

#[test]
fn the_example_passes_the_conformance_suite() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut system = ProcessSystem::start(launch(&["python3", &example()], folder.path())).unwrap();
    let report = check(&mut system, "check");
    assert!(report.passed(), "{report}");
    let claimed = |(name, verdict): &(&str, Verdict)| {
        *verdict == Verdict::Passed || name.starts_with("decisions")
    };
    assert!(report.verdicts.iter().all(claimed), "{report}");
}

/// The example behind HTTP, killed with the test.
struct Served {
    child: std::process::Child,
    remote: Remote,
}

impl Served {
    fn start(folder: &Path, command: &[&str]) -> Self {
        let bridge = format!("{}/wrappers/over_http.py", env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("python3")
            .args([&bridge, "0"])
            .arg(folder)
            .args(command)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut { said }, &mut address).unwrap();
        let remote = Remote {
            address: address.trim().to_owned(),
            models: None,
            settings: serde_json::Map::new(),
            call: Duration::from_secs(60),
        };
        Self { child, remote }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_same_messages_over_http_pass_the_suite_and_a_crash_is_a_failure() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &["python3", &example()]);
    let mut system = HttpSystem::connect(served.remote.clone()).unwrap();
    let report = check(&mut system, "check");
    assert!(report.passed(), "{report}");

    let odd = shell("echo out of ink >&2; exit 7");
    let odd: Vec<&str> = odd.iter().map(String::as_str).collect();
    let served = Served::start(folder.path(), &odd);
    let mut system = HttpSystem::connect(served.remote.clone()).unwrap();
    system.open(&namespace("d")).unwrap();
    let error = system.search("where?", 3, None).unwrap_err();
    assert!(error.to_string().contains("status 7"), "{error}");
    assert_eq!(system.search("where?", 3, None).unwrap_err(), error);
    let address = served.remote.clone();
    drop(served);
    let gone = HttpSystem::connect(address).unwrap_err();
    assert!(
        matches!(gone, SystemError::Unreachable { call: "hello", .. }),
        "{gone}"
    );
}

#[test]
fn the_example_is_about_forty_lines() {
    let text = std::fs::read_to_string(example()).unwrap();
    let code = text.lines().filter(|line| !line.trim().is_empty());
    assert!(code.count() <= 45);
}

#[test]
fn a_crash_is_an_error_with_its_reason_and_the_next_conversation_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut system = odd("echo 'out of ink' >&2; exit 7", folder.path());
    let error = system.search("where?", 3, None).unwrap_err();
    let SystemError::Ended { reason, stderr, .. } = &error else {
        unreachable!("{error}");
    };
    assert!(reason.contains("exit status: 7"), "{reason}");
    assert_eq!(std::fs::read_to_string(stderr).unwrap(), "out of ink\n");
    assert_eq!(system.search("where?", 3, None).unwrap_err(), error);
    system.open(&namespace("d")).unwrap();
}

#[test]
fn a_call_past_its_deadline_kills_the_wrapper_and_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("still-here");
    let then = format!("(: hang; sleep 600; touch {}) ; wait", mark.display());
    let mut system = odd(&then, folder.path());
    let error = system.ready().unwrap_err().to_string();
    assert!(error.contains("no response in 0.3 seconds"), "{error}");
    assert!(!mark.exists());
}

/// A renamed field must not read as 0 memories.
#[test]
fn a_renamed_field_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut system = odd(r#"echo '{"ok":{"results":[]}}'"#, folder.path());
    let error = system.search("where?", 3, None).unwrap_err();
    assert!(matches!(error, SystemError::Contract { .. }), "{error}");
    assert!(
        error.to_string().contains("unknown field `results`"),
        "{error}"
    );
    let other = tempfile::tempdir().unwrap();
    let item = r#"echo '{"ok":{"items":[{"memory":"tea"}]}}'"#;
    let error = odd(item, other.path()).search("where?", 3, None);
    assert!(error.unwrap_err().to_string().contains("`memory`"));
}

#[test]
fn what_is_printed_beside_the_protocol_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut system = odd("echo 'Loading model ...'", folder.path());
    let said = Said {
        position: 0,
        session: 0,
        date: None,
        speaker: "Runa".to_owned(),
        text: "Good day.".to_owned(),
        captions: vec![],
    };
    let error = system.add(&[said]).unwrap_err().to_string();
    assert!(error.contains("Loading model ..."), "{error}");
}

/// mem0#7197: a key of another provider in the environment reroutes calls.
#[test]
fn a_wrapper_sees_no_variable_but_those_listed() {
    let folder = tempfile::tempdir().unwrap();
    // CARGO_MANIFEST_DIR stands for any variable of this process that no wrapper needs.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let then = r#"env >&2; echo "{\"error\":\"${CARGO_MANIFEST_DIR-withheld} $MEM0_TELEMETRY\"}""#;
    let mut system = odd(then, folder.path());
    let error = system.export().unwrap_err();
    assert_eq!(error.to_string(), "export: withheld False");
    let seen = std::fs::read_to_string(folder.path().join("stderr.log")).unwrap();
    assert!(!seen.contains("CARGO"), "{seen}");
    assert!(seen.contains("HOME=") && seen.contains("/home"), "{seen}");
}

#[test]
fn memory_beyond_the_limit_is_refused_to_the_wrapper() {
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch(&[], folder.path());
    launch.command = shell(r#"echo "{\"error\":\"$(ulimit -v)\"}""#);
    launch.limits.memory_mib = 512;
    let mut system = ProcessSystem::start(launch).unwrap();
    system.open(&namespace("c")).unwrap();
    let said = system.ready().unwrap_err().to_string();
    assert_eq!(said, format!("ready: {}", 512 * 1024));
}

/// qdrant-client#1018, and stores that grow across runs.
#[test]
fn a_folder_has_one_owner_and_a_namespace_one_history() {
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch(&[], folder.path());
    launch.command = shell("echo '{\"ok\":{}}'");
    let mut system = ProcessSystem::start(launch.clone()).unwrap();
    let held = ProcessSystem::start(launch).unwrap_err();
    let holder = std::process::id().to_string();
    assert!(
        matches!(&held, SystemError::Held { holder: h, .. } if *h == holder),
        "{held}"
    );
    system.open(&namespace("c")).unwrap();
    std::fs::write(folder.path().join("store/c/data"), "x").unwrap();
    let occupied = system.open(&namespace("c")).unwrap_err();
    assert!(
        matches!(occupied, SystemError::Occupied { .. }),
        "{occupied}"
    );
    let dots = system.open(&namespace("../c")).unwrap_err();
    assert!(matches!(dots, SystemError::Refused { .. }), "{dots}");
}
