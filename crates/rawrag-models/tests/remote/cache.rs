//! The response cache: what its key covers, and what survives what.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    mem,
    path::PathBuf,
    process::{Command, Stdio},
};

use proptest::prelude::*;
use rawrag_models::cache::{
    Cache, CacheError, Entry, Imported, Mode, Pruned, Request, export, import, prune, stats, verify,
};

fn request(number: u32) -> Request {
    Request {
        endpoint: "http://service/v1/embeddings".into(),
        body: format!("{{\"input\":[\"text {number}\"]}}"),
        repetition: 0,
    }
}

fn entry(number: u32) -> Entry {
    let mut entry = Entry::new(request(number), 200, format!("reply {number}"));
    entry.kept_at = u64::from(number);
    entry
}

/// A cache of `count` entries that was left as a killed process leaves it: without an index.
fn killed(count: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), Mode::ReadWrite).unwrap();
    for number in 0..count {
        cache.put(&entry(number)).unwrap();
    }
    // Not dropped, so that no index is written; the lock goes with the file that is left open, so
    // later openings of this test only share it.
    mem::forget(cache);
    let segment = folder.path().join("00000001.seg");
    (folder, segment)
}

fn open(folder: &tempfile::TempDir) -> Cache {
    Cache::open(folder.path(), Mode::ReadWrite).unwrap()
}

proptest! {
    #[test]
    fn every_field_of_a_request_changes_its_key(
        endpoint in "[a-z/:]{0,12}",
        body in "[ -~é]{0,24}",
        repetition in 0u32..4,
        more in "[ -~é]{1,6}",
    ) {
        let base = Request { endpoint, body, repetition };
        let longer_endpoint = Request { endpoint: format!("{}{more}", base.endpoint), ..base.clone() };
        let longer_body = Request { body: format!("{}{more}", base.body), ..base.clone() };
        let repeated = Request { repetition: base.repetition + 1, ..base.clone() };
        // What one field loses and the next gains is another request.
        let moved = Request {
            endpoint: format!("{}{}", base.endpoint, base.body),
            body: String::new(),
            ..base.clone()
        };
        let mut keys = HashSet::from([base.key(), longer_endpoint.key(), longer_body.key(), repeated.key()]);
        prop_assert_eq!(keys.len(), 4);
        prop_assert_eq!(keys.insert(moved.key()), !base.body.is_empty() && moved != longer_endpoint);
        prop_assert_eq!(base.clone().key(), base.key());
    }
}

#[test]
fn what_was_put_is_there_after_any_end_and_again_after_an_index_is_lost() {
    let (folder, segment) = killed(20);
    for reopened in ["killed", "with an index", "with a damaged index"] {
        let cache = open(&folder);
        assert_eq!(cache.len(), 20, "{reopened}");
        for number in 0..20 {
            let found = cache.get(&request(number).key()).unwrap();
            assert_eq!(found, Some(entry(number)), "{reopened}");
        }
        let index = segment.with_extension("idx");
        let mut bytes = fs::read(&index).unwrap();
        bytes[20] ^= 1;
        if reopened == "with an index" {
            fs::write(&index, bytes).unwrap();
        }
    }
    assert_eq!(verify(folder.path()).unwrap().entries, 20);
}

#[test]
fn a_tail_torn_anywhere_loses_only_what_it_held() {
    let (folder, segment) = killed(3);
    let whole = fs::read(&segment).unwrap();
    let mut ends = Vec::new();
    for length in (0..=whole.len()).rev() {
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("00000001.seg"), &whole[..length]).unwrap();
        let cache = open(&copy);
        ends.push(cache.len());
        for number in 0..cache.len() as u32 {
            let found = cache.get(&request(number).key()).unwrap();
            assert_eq!(found, Some(entry(number)), "{length}");
        }
        // What was lost is fetched and kept again.
        cache.put(&entry(2)).unwrap();
        drop(cache);
        assert!(open(&copy).get(&request(2).key()).unwrap().is_some());
        assert_eq!(verify(copy.path()).unwrap().damage, []);
    }
    assert!(ends.is_sorted_by(|a, b| a >= b) && ends[0] == 3 && ends.ends_with(&[0]));
    drop(folder);
}

#[test]
fn a_tail_of_zeros_is_a_torn_one() {
    let (folder, segment) = killed(3);
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend([0; 100]);
    fs::write(&segment, bytes).unwrap();
    assert_eq!(open(&folder).len(), 3);
    assert_eq!(verify(folder.path()).unwrap().torn_bytes, 100);
}

/// Where the records of a segment begin: after 8 bytes of magic, each 48 bytes and its payload,
/// whose length is its first number.
fn starts(segment: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 8;
    while at < segment.len() {
        starts.push(at);
        let length = u32::from_le_bytes(segment[at..at + 4].try_into().unwrap());
        at += 48 + length as usize;
    }
    starts
}

#[test]
fn damage_anywhere_else_is_named_and_never_read_as_a_reply() {
    let (folder, segment) = killed(3);
    let whole = fs::read(&segment).unwrap();
    let starts = starts(&whole);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&segment, &bytes).unwrap();
        let verified = verify(folder.path()).unwrap();
        let last = at >= starts[2];
        match verified.damage.as_slice() {
            [damage] => {
                let begins = starts.iter().rfind(|start| **start <= at);
                let begins = begins.copied().unwrap_or(0);
                let found = (damage.segment.as_path(), damage.offset as usize);
                assert_eq!(found, (segment.as_path(), begins), "{at}");
            }
            // The last entry cannot be told from one that was torn.
            [] => assert!(last && verified.torn_bytes > 0, "{at}"),
            many => panic!("{at}: {many:?}"),
        }
        match Cache::open(folder.path(), Mode::ReadOnly) {
            Err(CacheError::Damaged { .. }) => assert!(!last || verified.damage.len() == 1),
            Err(error) => panic!("{at}: {error}"),
            Ok(cache) => {
                assert!(last, "{at}");
                assert_eq!(cache.len(), 2);
            }
        }
    }
    // With an index, opening reads no entry, and the damaged one is refused when it is asked for.
    fs::write(&segment, &whole).unwrap();
    drop(open(&folder));
    for damaged in &starts {
        let mut bytes = whole.clone();
        bytes[damaged + 60] ^= 1;
        fs::write(&segment, bytes).unwrap();
        let offsets: Vec<u64> = verify(folder.path())
            .unwrap()
            .damage
            .iter()
            .map(|damage| damage.offset)
            .collect();
        assert_eq!(offsets, [*damaged as u64]);
    }
    let mut bytes = whole;
    bytes[starts[1] + 60] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let cache = open(&folder);
    assert_eq!(cache.get(&request(0).key()).unwrap(), Some(entry(0)));
    let error = cache.get(&request(1).key()).unwrap_err();
    assert!(matches!(error, CacheError::Damaged { offset, .. } if offset as usize == starts[1]));
}

#[test]
fn several_writers_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let folder = &folder;
            scope.spawn(move || {
                let cache = open(folder);
                for number in 0..50 {
                    // Every entry comes from two writers.
                    cache.put(&entry(writer / 2 * 50 + number)).unwrap();
                }
            });
        }
    });
    let cache = open(&folder);
    assert_eq!(cache.len(), 100);
    let found = verify(folder.path()).unwrap();
    assert!(
        found.damage.is_empty() && found.entries - found.repeated == 100,
        "{found:?}"
    );
    let counted = stats(folder.path()).unwrap();
    assert_eq!(counted.entries, 100);
    assert_eq!(
        counted.endpoints["http://service/v1/embeddings"].entries,
        100
    );
}

/// What the test below runs as a process of its own: keeps entries without end and names each once
/// it is kept.
#[test]
#[ignore = "never ends by itself"]
fn keeps_entries_until_it_is_killed() {
    let folder = std::env::var_os("RAWRAG_TEST_CACHE").unwrap();
    let first: u32 = std::env::var("RAWRAG_TEST_FIRST").unwrap().parse().unwrap();
    let cache = Cache::open(folder.as_ref(), Mode::ReadWrite).unwrap();
    for number in first.. {
        cache.put(&entry(number)).unwrap();
        println!("kept {number}");
    }
}

#[test]
fn killed_processes_lose_nothing_that_they_kept() {
    let folder = tempfile::tempdir().unwrap();
    // Two at once, three times over, each stopped in the midst of its work.
    for (round, lines) in [1, 40, 300].into_iter().enumerate() {
        let mut children: Vec<_> = (0..2)
            .map(|child| {
                let first = round as u32 * 2_000_000 + child * 1_000_000;
                Command::new(std::env::current_exe().unwrap())
                    .args(["--ignored", "--exact", "--nocapture"])
                    .arg("cache::keeps_entries_until_it_is_killed")
                    .env("RAWRAG_TEST_CACHE", folder.path())
                    .env("RAWRAG_TEST_FIRST", first.to_string())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // Open until the children are dead, or they would end by themselves.
        let mut outputs: Vec<_> = children
            .iter_mut()
            .map(|child| BufReader::new(child.stdout.take().unwrap()))
            .collect();
        let mut kept = Vec::new();
        for output in &mut outputs {
            let named = output.lines().map(Result::unwrap).filter_map(|line| {
                let (_, number) = line.rsplit_once("kept ")?;
                Some(number.parse::<u32>().unwrap())
            });
            kept.extend(named.take(lines));
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let cache = open(&folder);
        assert_eq!(kept.len(), 2 * lines);
        for number in kept {
            let found = cache.get(&request(number).key()).unwrap();
            assert_eq!(found, Some(entry(number)));
        }
    }
    assert_eq!(verify(folder.path()).unwrap().damage, []);
}

#[test]
fn a_read_only_cache_writes_nothing() {
    let (folder, _) = killed(3);
    fs::remove_file(folder.path().join("lock")).unwrap();
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let cache = Cache::open(folder.path(), Mode::ReadOnly).unwrap();
    assert_eq!(cache.len(), 3);
    assert!(matches!(
        cache.put(&entry(9)),
        Err(CacheError::ReadOnly { .. })
    ));
    drop(cache);
    assert_eq!(names(), before);
    let missing = Cache::open(&folder.path().join("none"), Mode::ReadOnly);
    assert!(matches!(missing, Err(CacheError::Io { .. })));
}

#[test]
fn pruning_keeps_what_is_picked_and_needs_the_cache_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder);
    for number in 0..10 {
        cache.put(&entry(number)).unwrap();
    }
    let refused = prune(folder.path(), |_| true).unwrap_err();
    assert!(matches!(refused, CacheError::InUse { .. }), "{refused}");
    drop(cache);
    let pruned = prune(folder.path(), |entry| entry.kept_at >= 7).unwrap();
    assert_eq!(
        pruned,
        Pruned {
            kept: 3,
            removed: 7
        }
    );
    let cache = open(&folder);
    assert_eq!(cache.len(), 3);
    assert_eq!(cache.get(&request(8).key()).unwrap(), Some(entry(8)));
    assert_eq!(stats(folder.path()).unwrap().segments, 1);
}

#[test]
fn what_is_exported_can_be_imported_and_equal_caches_export_equal_bytes() {
    let (folder, _) = killed(5);
    let mut lines = Vec::new();
    assert_eq!(export(folder.path(), &mut lines).unwrap(), 5);
    let other = tempfile::tempdir().unwrap();
    let cache = open(&other);
    // In another order, some in another segment.
    cache.put(&entry(4)).unwrap();
    drop(cache);
    let imported = import(other.path(), &mut lines.as_slice()).unwrap();
    assert_eq!(
        imported,
        Imported {
            added: 4,
            present: 1
        }
    );
    let mut again = Vec::new();
    export(other.path(), &mut again).unwrap();
    assert_eq!(lines, again);
    let error = import(other.path(), &mut &b"{\"request\": 1}\n"[..]).unwrap_err();
    assert!(matches!(error, CacheError::Line { line: 1, .. }), "{error}");
}
