//! Reading tables of labels, and every refusal by its words.

#![expect(clippy::unwrap_used, reason = "a test's own helpers fail the test")]

use std::fs;
use std::path::PathBuf;

use rawrag_records::labels::{Columns, LabelTable};

const WIDE: &str = "\
conversation,question,kind,alpha,beta
c1,1,2,1,0
c1,2,3,0.5,
c2,1,4,true,False
";

fn columns() -> Columns {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Columns {
        unit: names(&["conversation", "question"]),
        cluster: names(&["conversation"]),
        ..Columns::default()
    }
}

fn write(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn read(name: &str, text: &str, columns: &Columns) -> LabelTable {
    let (_folder, path) = write(name, text);
    LabelTable::read(&path, columns).unwrap()
}

/// What is wrong with the file, without its path.
fn refusal(name: &str, text: &str, columns: &Columns) -> String {
    let (_folder, path) = write(name, text);
    let error = LabelTable::read(&path, columns).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()));
    error.problem.to_string()
}

/// System, unit, label and cluster of each judgment, sorted.
fn judgments(table: &LabelTable) -> Vec<(&str, &str, Option<f64>, Option<&str>)> {
    let mut judgments: Vec<_> = table
        .labels
        .iter()
        .map(|label| {
            let unit = &table.units[label.unit];
            let system = table.systems[label.system].as_str();
            (
                system,
                unit.key.as_str(),
                label.value,
                unit.cluster.as_deref(),
            )
        })
        .collect();
    judgments.sort_by_key(|&(system, unit, ..)| (system, unit));
    judgments
}

#[test]
fn wide_long_csv_and_jsonl_say_the_same() {
    let wide = read("t.csv", WIDE, &columns());
    assert_eq!(
        judgments(&wide),
        [
            ("alpha", "c1/1", Some(1.0), Some("c1")),
            ("alpha", "c1/2", Some(0.5), Some("c1")),
            ("alpha", "c2/1", Some(1.0), Some("c2")),
            ("beta", "c1/1", Some(0.0), Some("c1")),
            ("beta", "c1/2", None, Some("c1")),
            ("beta", "c2/1", Some(0.0), Some("c2")),
        ]
    );
    // Most kinds are no labels, so the column is no system.
    assert_eq!(wide.passed_over, ["kind"]);

    let jsonl = r#"{"conversation": "c1", "question": 1, "alpha": 1, "beta": 0, "gold": ["x"]}
{"conversation": "c1", "question": "2", "alpha": 0.5}

{"beta": false, "alpha": true, "question": 1, "conversation": "c2"}
"#;
    let jsonl = read("t.jsonl", jsonl, &columns());
    assert_eq!(judgments(&jsonl), judgments(&wide));

    let long = "\u{feff}system,conversation,question,label\r\n\
                beta,c1,1,0\r\nalpha,c1,1,1\r\nalpha,c1,2,0.5\r\nbeta,c1,2,\r\n\
                alpha,c2,1,1\r\nbeta,c2,1,0.0\r\n";
    let long = read("t.csv", long, &columns());
    assert_eq!(long.systems, ["beta", "alpha"]);
    assert_eq!(judgments(&long), judgments(&wide));
}

#[cfg(feature = "frames")]
#[test]
fn parquet_says_the_same_as_csv() {
    use polars::prelude::{Column, DataFrame, ParquetWriter};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut frame = DataFrame::new(
        3,
        vec![
            Column::new("conversation".into(), ["c1", "c1", "c2"]),
            Column::new("question".into(), [1i64, 2, 1]),
            Column::new("alpha".into(), [1.0, 0.5, 1.0]),
            Column::new("beta".into(), [Some(false), None, Some(false)]),
        ],
    )
    .unwrap();
    ParquetWriter::new(fs::File::create(&path).unwrap())
        .finish(&mut frame)
        .unwrap();
    let table = LabelTable::read(&path, &columns()).unwrap();
    assert_eq!(
        judgments(&table),
        judgments(&read("t.csv", WIDE, &columns()))
    );
    fs::write(&path, "PAR1 no more").unwrap();
    assert!(LabelTable::read(&path, &columns()).is_err());
}

#[test]
fn chosen_systems_come_in_the_order_asked_for_and_are_read_strictly() {
    let chosen = |systems: &[&str]| Columns {
        systems: systems.iter().map(|name| (*name).to_owned()).collect(),
        ..columns()
    };
    let table = read("t.csv", WIDE, &chosen(&["beta", "alpha"]));
    assert_eq!(table.systems, ["beta", "alpha"]);
    assert_eq!(table.passed_over, [""; 0]);
    assert_eq!(
        refusal("t.csv", WIDE, &chosen(&["alpha", "kind"])),
        "line 2: \"2\" of system kind is no label: 0, 1, a share between them, or nothing where it \
         is missing"
    );
    assert_eq!(
        refusal("t.csv", WIDE, &chosen(&["gamma"])),
        "there is no system gamma; the systems are alpha, beta"
    );
    let long = "system,conversation,question,label\na,c1,1,1\nb,c1,1,1\n";
    assert_eq!(
        refusal("t.csv", long, &chosen(&["c"])),
        "there is no system c; the systems are a, b"
    );
}

/// A slash inside a value cannot make two units one.
#[test]
fn keys_of_several_columns_stay_apart() {
    let text = "conversation,question,a\nc/1,2,1\nc,1/2,0\n";
    let table = read("t.csv", text, &columns());
    let keys: Vec<&str> = table.units.iter().map(|unit| unit.key.as_str()).collect();
    assert_eq!(keys, [r"c\/1/2", r"c/1\/2"]);
}

#[test]
fn a_missing_column_is_named_with_those_there_are() {
    let wrong = Columns {
        unit: vec!["sample".to_owned()],
        ..Columns::default()
    };
    assert_eq!(
        refusal("t.csv", WIDE, &wrong),
        "there is no column sample; the columns are conversation, question, kind, alpha, beta"
    );
    assert_eq!(
        refusal(
            "t.csv",
            "system,conversation,question,score\na,c,1,1\n",
            &columns()
        ),
        "there is no column label; the columns are system, conversation, question, score"
    );
}

#[test]
fn a_label_that_is_none_is_named_with_its_line() {
    let told = |text: &str| refusal("t.csv", text, &columns());
    for wrong in ["2", "-0.1", "NaN", "inf", "yes"] {
        let text = format!("conversation,question,a\nc,1,1\nc,2,0\n\"c\n2\",1,1\nc,3,{wrong}\n");
        assert_eq!(
            told(&text),
            format!(
                "line 6: {wrong:?} of system a is no label: 0, 1, a share between them, or nothing \
                 where it is missing"
            )
        );
    }
    assert_eq!(
        told("conversation,question,a\nc,,1\n"),
        "line 2: column question is empty, so the line has no place"
    );
    assert_eq!(
        told("conversation,question,name\nc,1,left\n"),
        "no column holds labels; the columns are conversation, question, name"
    );
}

#[test]
fn a_repeated_unit_is_named_with_both_lines() {
    let text = "conversation,question,a\nc,1,1\nc,2,0\nc,1,0\n";
    assert_eq!(
        refusal("t.csv", text, &columns()),
        "unit c/1 has system a on line 2 and again on line 4; add the columns that tell them apart \
         to the unit, or say that they are repeated judgments"
    );
    let repeated = Columns {
        repeated: true,
        ..columns()
    };
    assert_eq!(read("t.csv", text, &repeated).labels.len(), 3);

    let torn = Columns {
        unit: vec!["question".to_owned()],
        cluster: vec!["conversation".to_owned()],
        ..Columns::default()
    };
    assert_eq!(
        refusal("t.csv", "conversation,question,a\nc,1,1\nd,1,0\n", &torn),
        "unit 1 has cluster c on line 2 and d on line 3"
    );
}

#[test]
fn what_is_no_table_is_refused() {
    let told = |name: &str, text: &str| refusal(name, text, &columns());
    assert_eq!(told("t.csv", ""), "there are no lines of labels");
    assert_eq!(
        told("t.csv", "conversation,question,a\n"),
        "there are no lines of labels"
    );
    assert_eq!(told("t.jsonl", "\n"), "there are no lines of labels");
    assert_eq!(
        told("t.csv", "conversation,question,a,a\nc,1,1,0\n"),
        "two columns are named a; rename one"
    );
    assert_eq!(
        told("t.csv", "conversation,question,a\nc,1,1\nc,2\n"),
        "line 3: 2 fields where the first line has 3"
    );
    assert_eq!(
        told("t.jsonl", "{\"a\": 1}\n{\"a\": 1, \"a\": 0}\n"),
        "line 2: a stands twice"
    );
    assert!(told("t.jsonl", "{\"a\": 1}\n[1]\n").starts_with("line 2: "));
    assert_eq!(
        told("t.txt", WIDE),
        "a table of labels is a file that ends in .csv, .jsonl or .parquet"
    );
    let (folder, _) = write("t.csv", "");
    let missing = folder.path().join("no.csv");
    let error = LabelTable::read(&missing, &columns()).unwrap_err();
    assert!(
        error.to_string().contains("no.csv: No such file"),
        "{error}"
    );
}
