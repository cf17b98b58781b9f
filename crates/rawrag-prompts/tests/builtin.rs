//! The files of `experiments/prompts`, the page about them, and what callers fill in.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rawrag_prompts::readout::{Task, rule};
use rawrag_prompts::{PromptSet, Template};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_file_is_embedded_under_its_own_name() {
    let set = PromptSet::builtin();
    let embedded: BTreeSet<&str> = set.templates().map(Template::name).collect();
    let files: BTreeSet<String> = fs::read_dir(workspace().join("experiments/prompts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = embedded.iter().map(|name| format!("{name}.md")).collect();
    assert_eq!(files, expected);
    let from_folder = PromptSet::from_folder(&workspace().join("experiments/prompts"));
    assert_eq!(from_folder.unwrap(), set);
}

/// The page and the files say the same of every template. The message of a failure is what the
/// page should hold.
#[test]
fn the_page_agrees_with_the_files() {
    let mut table =
        String::from("| template | fields | what a reply looks like | for |\n|---|---|---|---|\n");
    for template in PromptSet::builtin().templates() {
        let fields: Vec<String> = template
            .placeholders()
            .iter()
            .map(|field| format!("`{field}`"))
            .collect();
        writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            template.name(),
            fields.join(", "),
            template.output(),
            template.purpose()
        )
        .unwrap();
    }
    let page = fs::read_to_string(workspace().join("docs/prompts.md")).unwrap();
    assert!(
        page.replace("\r\n", "\n").contains(&table),
        "docs/prompts.md should hold\n{table}"
    );
}

#[test]
fn every_readout_branch_is_a_prompt_without_fields() {
    use Task::{Absence, Aggregation, Cascade, Deletion, ExactRecall, Other, Tracking};

    let set = PromptSet::builtin();
    let tasks = [
        ExactRecall,
        Aggregation,
        Tracking,
        Deletion,
        Cascade,
        Absence,
        Other,
    ];
    let after: BTreeSet<&str> = tasks.iter().map(|&task| rule(false, task)).collect();
    assert_eq!(after.len(), tasks.len());
    for name in after.into_iter().chain(tasks.map(|task| rule(true, task))) {
        set.render(name, &[]).unwrap();
    }
    assert!(
        tasks
            .iter()
            .all(|&task| rule(true, task) == "meme-readout-before")
    );
}

/// A rule that stands inside a JSON string is one line.
#[test]
fn contract_rules_are_one_line() {
    for template in PromptSet::builtin().templates() {
        if template.name().starts_with("contract-") {
            let rule = template.render(&[]).unwrap().user;
            assert!(!rule.contains(['\n', '"', '\\']), "{rule}");
        }
    }
}

#[test]
fn the_label_task_sends_its_braces_literally() {
    let prompt = PromptSet::builtin()
        .render("task-icl", &[("question", "q")])
        .unwrap();
    assert!(prompt.user.contains("label: {label}"), "{}", prompt.user);
}
