//! The template format, its checks both ways, folders and fingerprints.

use std::fs;

use proptest::prelude::*;
use rawrag_prompts::{PromptError, PromptSet, Template, TemplateError};

fn file(placeholders: &str, body: &str) -> String {
    format!("---\nname: t\npurpose: p\nplaceholders: {placeholders}\noutput: o\n---\n{body}")
}

fn parse(placeholders: &str, body: &str) -> Result<Template, TemplateError> {
    Template::parse(&file(placeholders, body))
}

#[test]
fn braces_that_are_no_placeholder_are_text() {
    let body = "<!-- user -->\n{\"a\": {\"b\": {x}}} {{x}} {{{x}}} {X} {} { x} {1} {\n";
    let prompt = parse("x", body).unwrap().render(&[("x", "7")]).unwrap();
    assert_eq!(
        prompt.user,
        "{\"a\": {\"b\": 7}} {x} {{x}} {X} {} { x} {1} {"
    );
}

#[test]
fn placeholders_are_checked_both_ways() {
    let undeclared = parse("a", "<!-- user -->\n{a} {b}");
    assert_eq!(undeclared, Err(TemplateError::Undeclared("b".to_owned())));
    let unused = parse("a, b", "<!-- system -->\n{a}\n<!-- user -->\nx");
    assert_eq!(unused, Err(TemplateError::Unused("b".to_owned())));

    let template = parse("a, b", "<!-- system -->\n{a}\n<!-- user -->\n{b}{a}").unwrap();
    let missing = template.render(&[("a", "1")]).unwrap_err().to_string();
    assert_eq!(missing, "prompt `t` needs a value for `b`");
    let surplus = template
        .render(&[("a", "1"), ("b", "2"), ("c", "3")])
        .unwrap_err();
    assert_eq!(
        surplus.to_string(),
        "prompt `t` has no placeholder `c`; it has a, b"
    );
    let twice = template
        .render(&[("a", "1"), ("a", "2"), ("b", "3")])
        .unwrap_err();
    assert!(matches!(twice, PromptError::Twice { .. }));
    let prompt = template.render(&[("b", "2"), ("a", "1")]).unwrap();
    assert_eq!(
        (prompt.system.as_deref(), prompt.user.as_str()),
        (Some("1"), "21")
    );
}

#[test]
fn what_is_no_template_says_what_to_mend() {
    let user = "<!-- user -->\nx";
    let errors = [
        Template::parse("name: t"),
        Template::parse(&file("", user).replace("purpose: p", "purpose p")),
        Template::parse(&file("", user).replace("purpose: p", "aim: p")),
        Template::parse(&file("", user).replace("purpose: p", "name: p")),
        Template::parse(&file("", user).replace("output: o\n", "")),
        parse("A", user),
        parse("a, a", "<!-- user -->\n{a}"),
        parse("a,", "<!-- user -->\n{a}"),
        parse("", "x"),
        parse("", "x\n<!-- user -->\nx"),
        parse("", "<!-- user -->\nx\n<!-- system -->\nx"),
        parse("", "<!-- system -->\nx"),
        parse("", "<!-- system -->\n\n<!-- user -->\nx"),
        parse("", "<!-- user -->\n\n"),
    ];
    let places: Vec<TemplateError> = errors.into_iter().map(Result::unwrap_err).collect();
    use TemplateError::{EmptyMessage, HeaderLine, KeyTwice, Messages, NoHeader, NoKey};
    use TemplateError::{PlaceholderName, UnknownKey};
    let (line, key) = (3, |key: &str| key.to_owned());
    assert_eq!(
        places,
        [
            NoHeader,
            HeaderLine {
                line,
                text: key("purpose p")
            },
            UnknownKey {
                line,
                key: key("aim")
            },
            KeyTwice {
                line,
                key: key("name")
            },
            NoKey("output"),
            PlaceholderName(key("A")),
            PlaceholderName(key("a")),
            PlaceholderName(key("")),
            Messages,
            Messages,
            Messages,
            Messages,
            EmptyMessage("system"),
            EmptyMessage("user"),
        ]
    );
}

/// Python 3.11: `sha256` over each of "\x01", "Be brief.", "{q}?", led by its length as
/// `struct.pack("<Q", n)`.
#[test]
fn a_fingerprint_is_of_what_is_sent_whatever_the_line_ends() {
    let text = file("q", "<!-- system -->\nBe brief.\n\n<!-- user -->\n{q}?\n");
    let template = Template::parse(&text).unwrap();
    assert_eq!(
        template.fingerprint().to_string(),
        "e65bb9bcda2b1d5ca50e5b617e07cc1aeec263fefdbf23257f56fb8b7e4a70d2"
    );
    let windows = Template::parse(&text.replace('\n', "\r\n")).unwrap();
    assert_eq!(windows, template);
    let renamed = Template::parse(&text.replace("purpose: p", "purpose: q")).unwrap();
    assert_eq!(renamed.fingerprint(), template.fingerprint());
}

#[test]
fn a_folder_replaces_the_prompts_it_names_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reader-meme.md");
    let own = file("question, context", "<!-- user -->\n{context} {question}")
        .replace("name: t", "name: reader-meme");
    fs::write(&path, &own).unwrap();
    let (builtin, swapped) = (
        PromptSet::builtin(),
        PromptSet::from_folder(folder.path()).unwrap(),
    );
    let changed: Vec<&str> = builtin
        .templates()
        .zip(swapped.templates())
        .filter(|(a, b)| a.fingerprint() != b.fingerprint())
        .map(|(a, _)| a.name())
        .collect();
    assert_eq!(changed, ["reader-meme"]);
    assert_ne!(builtin.fingerprint(), swapped.fingerprint());

    let refused = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let error = PromptSet::from_folder(folder.path())
            .unwrap_err()
            .to_string();
        fs::remove_file(&path).unwrap();
        error
            .rsplit_once(".md: ")
            .map_or(error.clone(), |(_, problem)| problem.to_owned())
    };
    let nothing = file("", "<!-- user -->\nx");
    assert_eq!(
        refused("reader-mem.md", &nothing),
        "no prompt is called `reader-mem`; did you mean `reader-meme`?; a file is named after the \
         prompt it replaces, as NAME.md"
    );
    assert!(refused("reader-meme.txt", &nothing).contains("no prompt is called"));
    assert!(refused("select-true.md", &nothing).contains("the header says `t`"));
    let other = own.replace("reader-meme", "task-icl");
    assert_eq!(
        refused("task-icl.md", &other),
        "the placeholders are context, question; whoever fills this prompt gives question, so it \
         has to use these and no other"
    );
}

#[test]
fn an_unknown_prompt_is_told_from_a_near_one() {
    let set = PromptSet::builtin();
    let error = set.render("judge-lokomo", &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("no prompt is called `judge-lokomo`; did you mean `judge-"),
        "{error}"
    );
    assert_eq!(
        set.template("zzz").unwrap_err().to_string(),
        "no prompt is called `zzz`"
    );
}

proptest! {
    /// Values stand in the prompt as they are, whatever braces they hold.
    #[test]
    fn values_are_never_expanded(a in "[{}ab\"\n ]{0,12}", b in "(?s).{0,12}") {
        let template = parse("a, b", "<!-- user -->\n{a}|{b}|{a}").unwrap();
        let prompt = template.render(&[("a", &a), ("b", &b)]).unwrap();
        prop_assert_eq!(prompt.user, format!("{a}|{b}|{a}"));
    }

    /// No text makes the parser panic, and a template without placeholders renders.
    #[test]
    fn any_text_is_a_template_or_an_error(body in "(?s)(<!-- user -->|\\{|\\}|a|\u{e9}|\n|.){0,30}") {
        if let Ok(template) = parse("", &body) {
            prop_assert!(template.render(&[]).is_ok());
        }
    }
}
