//! Whether longer answers are graded better: accuracy by thirds of answer length.
//!
//! A lenient judge accepts a long answer for one true part of it (003, section 6), so a system may
//! gain by saying more. The thirds are of all a run's answers, shortest first.

use crate::questions::{judge, score};
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Need, Outputs, Report, Spread, Table, Unit, Value,
};

pub(crate) const LENGTH: Diagnostic = Diagnostic {
    name: "length",
    about: "Whether longer answers are graded better",
    source: "003, section 6",
    needs: &[Need::Answers, Need::Judgments],
    analyse,
};

const COLUMNS: [Column; 5] = [
    Column::new("run", Unit::Text, "the run"),
    Column::new(
        "third",
        Unit::Text,
        "a third of its answers, by their number of words",
    ),
    Column::new(
        "questions",
        Unit::Count,
        "questions whose first answer is in that third",
    ),
    Column::new("words", Unit::Number, "mean words of the answer"),
    Column::new(
        "accuracy",
        Unit::Rate,
        "mean share of the grades that are correct",
    ),
];

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let mut rows = Vec::new();
    for run in &input.runs {
        rows.extend(thirds(run, input)?);
    }
    Ok(Report {
        tables: vec![Table {
            name: "length",
            about: "a third of one run's answers",
            columns: COLUMNS.to_vec(),
            rows,
        }],
        notes: Vec::new(),
    })
}

fn thirds(run: &Outputs, input: &Input<'_>) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let judge = judge(LENGTH.name, run, &input.settings)?;
    let answered = run.questions.iter().filter_map(|question| {
        let words = f64::from(question.answers.first()?.words?);
        let score = score(question, judge, input.settings.ungraded).value?;
        Some((words, score))
    });
    let answered: Vec<(f64, f64)> = answered.collect();
    let all = Spread::of(answered.iter().map(|(words, _)| *words));
    let (short, long) = (all.percentile(1.0 / 3.0), all.percentile(2.0 / 3.0));
    let third = |words: f64| {
        [short, long]
            .iter()
            .flatten()
            .filter(|b| words > **b)
            .count()
    };
    let row = |(at, name): (usize, &str)| {
        let inside = || answered.iter().filter(|(words, _)| third(*words) == at);
        vec![
            run.manifest.name.as_str().into(),
            name.into(),
            inside().count().into(),
            Spread::of(inside().map(|(words, _)| *words)).mean_of("answers of that length"),
            Spread::of(inside().map(|(_, score)| *score)).mean_of("answers of that length"),
        ]
    };
    Ok(["short", "middle", "long"]
        .into_iter()
        .enumerate()
        .map(row)
        .collect())
}

#[cfg(test)]
mod tests {
    use rawrag_records::{AnswerOutcome, Complete, JudgmentOutcome};

    use super::*;
    use crate::Settings;

    /// Six answers of one to six words, of which the long ones are right.
    #[test]
    fn thirds_are_counted_by_hand() {
        let answer = |n: u32| rawrag_records::Answer {
            benchmark: "own".into(),
            source: None,
            conversation: "a".into(),
            question: n.to_string(),
            phase: None,
            kind: "fact".into(),
            repetition: 0,
            outcome: AnswerOutcome::Answered,
            text: None,
            words: Some(n),
            error: None,
            model: None,
            prompt_sha256: None,
            input_tokens: None,
            output_tokens: None,
            milliseconds: None,
        };
        let judgment = |n: u32| rawrag_records::Judgment {
            benchmark: "own".into(),
            source: None,
            conversation: "a".into(),
            question: n.to_string(),
            phase: None,
            kind: "fact".into(),
            repetition: 0,
            judge: "made".into(),
            judge_repetition: 0,
            outcome: if n > 3 {
                JudgmentOutcome::Correct
            } else {
                JudgmentOutcome::Wrong
            },
            score: None,
            reply: None,
            error: None,
            prompt_sha256: None,
        };
        let records = Complete {
            answers: (1..=6).map(answer).collect(),
            judgments: (1..=6).map(judgment).collect(),
            ..Complete::default()
        };
        let run = Outputs::made("made", records);
        let report = LENGTH.report(&Input::new(&[&run], Settings::default()));
        let rows = report
            .map(|mut report| report.tables.remove(0).rows)
            .unwrap_or_default();
        let numbers = |column: usize| {
            rows.iter()
                .map(|row| row[column].as_f64())
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(2), [2.0, 2.0, 2.0].map(Some));
        assert_eq!(numbers(3), [1.5, 3.5, 5.5].map(Some));
        assert_eq!(numbers(4), [0.0, 0.5, 1.0].map(Some));
    }
}
