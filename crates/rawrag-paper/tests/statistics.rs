//! A small made-up comparison in every format, and numbers typed in.

#![expect(clippy::unwrap_used, reason = "a test's own helpers fail the test")]

use std::fmt::Write;
use std::fs;

use rawrag_paper::Format;
use rawrag_paper::statistics::typed::{self, PowerQuestion};
use rawrag_paper::statistics::{Comparison, StatisticsError};
use rawrag_records::labels::Columns;
use rawrag_statistics::report::Options;
use rawrag_statistics::{Missing, Replication};

const REPLICATION: Replication = Replication {
    replicates: 1_000,
    seed: 3,
};

/// Three systems on 24 questions of four conversations, of kinds 1 to 4; `plain` and `copy_1` agree
/// throughout.
fn table() -> String {
    let mut text = "conversation,question,kind,strong,plain,copy_1\n".to_owned();
    for q in 0..24 {
        let strong = u8::from(q % 8 != 0);
        let plain = u8::from(q % 2 == 0);
        let (conversation, kind) = (q / 6, q % 4 + 1);
        writeln!(
            text,
            "conv-{conversation},{q},{kind},{strong},{plain},{plain}"
        )
        .unwrap();
    }
    text
}

fn compare(text: &str, missing: Missing) -> Result<Comparison, StatisticsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.csv");
    fs::write(&path, text).unwrap();
    let columns = Columns {
        unit: vec!["conversation".to_owned(), "question".to_owned()],
        cluster: vec!["conversation".to_owned()],
        ..Columns::default()
    };
    let options = Options {
        alpha: 0.05,
        replication: REPLICATION,
        margin: Some(0.05),
        unit: "question".to_owned(),
        cluster: "cluster".to_owned(),
    };
    Comparison::of(&path, &columns, missing, &options)
}

#[test]
fn a_small_table_in_every_format() {
    let comparison = compare(&table(), Missing::Refuse).unwrap();
    insta::assert_snapshot!("small-md", comparison.render(Format::Markdown));
    insta::assert_snapshot!("small-csv", comparison.render(Format::Csv));
    insta::assert_snapshot!("small-tex", comparison.render(Format::Latex));
    insta::assert_snapshot!("small-json", comparison.render(Format::Json));
    let html = comparison.render(Format::Html);
    assert_eq!(html.matches("<table>").count(), 4);
}

/// The CSV is one rectangle that spells the JSON's numbers.
#[test]
fn csv_and_json_hold_the_same_numbers() {
    let comparison = compare(&table(), Missing::Refuse).unwrap();
    let text = comparison.render(Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cell = |row: usize, name: &str| {
        let at = heads.iter().position(|head| head == name).unwrap();
        rows[row][at].parse::<f64>().unwrap()
    };
    let pair = &comparison.report.pairs[0];
    assert_eq!(rows.len(), 3 + 3 + 1);
    assert_eq!(cell(3, "value"), pair.difference);
    assert_eq!(cell(3, "upper"), pair.interval.unwrap().upper);
    assert_eq!(cell(3, "p_signflip_holm"), pair.p_signflip_holm.value());
    assert_eq!(cell(0, "value"), comparison.report.systems[0].rate);
}

#[test]
fn missing_labels_are_refused_unless_asked_for() {
    let torn = table().replace("conv-0,1,2,1,0,0", "conv-0,1,2,1,,0");
    let error = compare(&torn, Missing::Refuse).unwrap_err();
    assert!(!error.is_usage());
    let told = error.to_string();
    assert!(
        told.contains("labels.csv: system plain, unit conv-0/1: no score (1 missing in all)"),
        "{told}"
    );
    assert!(told.ends_with("see --missing"), "{told}");
    let zero = compare(&torn, Missing::Zero).unwrap();
    assert_eq!((zero.report.n, zero.report.missing_counted_zero), (24, 1));
    let dropped = compare(&torn, Missing::DropUnit).unwrap();
    assert_eq!((dropped.report.n, dropped.report.units_dropped), (23, 1));
}

#[test]
fn one_system_is_no_comparison() {
    let error = compare("conversation,question,a\nc,1,1\n", Missing::Refuse).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a comparison needs two systems, there is 1"
    );
}

/// Published or textbook inputs: S1 of the selection paper's kind of counts, Holm's own example
/// shape, Cohen's kappa of 0.4 from 20, 5, 10, 15.
#[test]
fn numbers_typed_in() {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    let counts = [vec![20, 5], vec![10, 15]];
    let power = PowerQuestion {
        difference: 0.05,
        discordant: 0.2,
        alpha: 0.05,
        power: 0.8,
        units: None,
        margin: Some(0.05),
        clusters: Some((50, 0.05)),
        replication: REPLICATION,
    };
    let answers = [
        typed::mcnemar(241, 408, Some(1_540)).unwrap(),
        typed::mcnemar(0, 2_000, None).unwrap(),
        typed::mcnemar(0, 0, None).unwrap(),
        typed::holm(&words(&["S1=0.01", "S2=0.04", "S3=0.03", "S4=4e-500"])).unwrap(),
        typed::noninferiority(35, 32, 400, 0.05, 0.05).unwrap(),
        typed::kappa(&counts, REPLICATION).unwrap(),
        typed::power(&power).unwrap(),
        typed::power(&PowerQuestion {
            units: Some(1_500),
            ..power
        })
        .unwrap(),
        typed::q(
            &words(&["110=6", "101=2", "100=9", "000=4", "111=12", "010=3"]),
            REPLICATION,
        )
        .unwrap(),
        typed::q(&words(&["11=6", "00=2"]), REPLICATION).unwrap(),
    ];
    let texts: Vec<String> = answers.iter().map(|a| a.render(Format::Markdown)).collect();
    insta::assert_snapshot!("typed-md", texts.join("\n"));
    let json: Vec<String> = answers.iter().map(|a| a.render(Format::Json)).collect();
    insta::assert_snapshot!("typed-json", json.join("\n"));
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    let power = PowerQuestion {
        difference: 0.3,
        discordant: 0.2,
        alpha: 0.05,
        power: 0.8,
        units: None,
        margin: None,
        clusters: None,
        replication: REPLICATION,
    };
    let refusals = [
        typed::mcnemar(3, 4, Some(6)),
        typed::mcnemar(u64::MAX, 1, Some(6)),
        typed::holm(&words(&["0.5", "0"])),
        typed::holm(&words(&["1.1"])),
        typed::holm(&words(&["nan"])),
        typed::holm(&words(&["a=0.1", "a=0.2"])),
        typed::kappa(&[vec![1, 2], vec![3]], REPLICATION),
        typed::kappa(&[vec![0, 0], vec![0, 0]], REPLICATION),
        typed::kappa(&[vec![u64::MAX, 1], vec![0, 0]], REPLICATION),
        typed::power(&power),
        typed::power(&PowerQuestion {
            difference: 0.001,
            clusters: Some((10, 0.3)),
            ..power
        }),
        typed::q(&words(&["12=3"]), REPLICATION),
        typed::q(&words(&["11=3", "111=2"]), REPLICATION),
        typed::q(&words(&["10=99999999999"]), REPLICATION),
        typed::q(&words(&["10=0"]), REPLICATION),
    ];
    let told: Vec<String> = refusals
        .into_iter()
        .map(|refusal| {
            let error = refusal.unwrap_err();
            assert!(error.is_usage());
            error.to_string()
        })
        .collect();
    insta::assert_snapshot!("typed-refusals", told.join("\n"));
}
