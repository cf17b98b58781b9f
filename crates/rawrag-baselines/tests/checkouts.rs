//! The wrappers of systems in a checkout, with stand-ins of the entry points that they use.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use rawrag_baselines::check::check;
use rawrag_baselines::known::{SetupError, known};
use rawrag_baselines::protocol::Models;
use rawrag_baselines::{
    Launch, Limits, MemorySystem as _, Namespace, ProcessSystem, Said, SystemError,
};
use serde_json::{Map, Value};

#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

fn stand_in(name: &str) -> String {
    format!("{}/tests/stand_ins/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn settings(checkout: &str) -> Map<String, Value> {
    [("checkout".to_owned(), checkout.into())]
        .into_iter()
        .collect()
}

fn start(system: &str, checkout: &str, folder: &Path) -> ProcessSystem {
    let settings = settings(checkout);
    let command = known(system)
        .unwrap()
        .command(&folder.join("systems"), &settings);
    ProcessSystem::start(Launch {
        command: command.unwrap(),
        folder: folder.join("run"),
        models: Some(Models {
            address: "http://127.0.0.1:9/v1".to_owned(),
            chat: "none".to_owned(),
            embedding: "none".to_owned(),
            dimension: 1,
        }),
        settings,
        limits: Limits::default(),
    })
    .unwrap()
}

fn namespace() -> Namespace {
    Namespace {
        name: "c".to_owned(),
        fresh: true,
        speakers: vec!["Ada".to_owned()],
    }
}

fn said(position: u32, text: &str) -> Said {
    Said {
        position,
        session: position,
        date: "2023-05-08 00:06".parse().ok(),
        speaker: "Ada".to_owned(),
        text: text.to_owned(),
        captions: vec![],
    }
}

#[test]
fn the_wrappers_of_checkouts_conform() {
    if !has_python() {
        return;
    }
    for (system, checkout) in [("emem", "emem"), ("emem-g", "emem"), ("memora", "memora")] {
        let folder = tempfile::tempdir().unwrap();
        let report = check(
            &mut start(system, &stand_in(checkout), folder.path()),
            "check",
        );
        assert!(report.passed(), "{report}");
        assert!(report.system.starts_with(system), "{report}");
    }
}

/// EMem takes in a history whole: what is added after a search is found only in a new store.
#[test]
fn what_is_added_later_is_found_after_the_next_ready() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut system = start("emem", &stand_in("emem"), folder.path());
    system.open(&namespace()).unwrap();
    for (position, text) in (0..).zip(["The pump is mended.", "The pump leaks again."]) {
        system.add(&[said(position, text)]).unwrap();
        let early = system.search("pump", 5, None).unwrap_err();
        assert!(early.to_string().contains("`ready`"), "{early}");
        system.ready().unwrap();
        let found = system.search("pump", 5, None).unwrap();
        assert_eq!(found.len() as u32, position + 1);
    }
    assert_eq!(system.export().unwrap().len(), 2);
    // One turn, then both of them again.
    assert_eq!(system.usage().unwrap().chat_calls, 3);
}

#[test]
fn what_a_library_logs_as_failed_fails_the_call() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut system = start("memora", &stand_in("memora"), folder.path());
    system.open(&namespace()).unwrap();
    let failed = system.add(&[said(0, "The pump is out of reach.")]);
    let failed = failed.unwrap_err().to_string();
    assert!(failed.contains("Error in extraction"), "{failed}");
}

#[test]
fn a_checkout_that_is_missing_or_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for system in ["emem", "emem-g", "memora"] {
        let known = known(system).unwrap();
        let unnamed = known.command(folder.path(), &Map::new()).unwrap_err();
        assert!(
            unnamed.to_string().contains("--setting checkout=.."),
            "{unnamed}"
        );
        let nowhere = known
            .command(folder.path(), &settings("no/such/folder"))
            .unwrap_err();
        assert!(matches!(nowhere, SetupError::Checkout { .. }), "{nowhere}");
        if !has_python() {
            continue;
        }
        let (scratch, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut wrapper = start(system, other.path().to_str().unwrap(), scratch.path());
        let refused = wrapper.open(&namespace()).unwrap_err();
        assert!(matches!(refused, SystemError::Refused { .. }), "{refused}");
        assert!(
            refused.to_string().contains("another repository"),
            "{refused}"
        );
    }
}

/// The checkout's own environment runs it, unless a setting names another Python.
#[test]
fn the_python_of_a_checkout_is_its_own() {
    let (folder, checkout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = checkout.path().to_str().unwrap();
    let known = known("memora").unwrap();
    let python =
        |settings: &Map<String, Value>| known.command(folder.path(), settings).unwrap()[0].clone();
    let mut settings = settings(path);
    assert_eq!(python(&settings), "python3");
    let own = checkout.path().join(".venv/bin/python");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "").unwrap();
    assert_eq!(python(&settings), own.to_str().unwrap());
    settings.insert("python".to_owned(), "python3.12".into());
    assert_eq!(python(&settings), "python3.12");
}
