use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::corpus::{Conversation, Entry, MessagePosition, Question};
use crate::experiment::Experiment;
use crate::memory;
use crate::pipeline::{self, Job, Progress};
use crate::records::{
    Answer, Complete, EvidenceItem, Expected, Judgment, JudgmentOutcome, Key, Manifest,
    RecordError, Retrieval, Run, Search,
};
use crate::scoring::Ranking;
use crate::summary::{self, Depth, Found};
use rawrag_statistics::{PairCounts, Replication, sign_flip};
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::{Weights, bar, models};

/// What a run has to know on this machine to go on, beside what its manifest says.
#[derive(Serialize, Deserialize)]
pub(super) struct Local {
    pub(super) experiment: PathBuf,
    pub(super) data: PathBuf,
    unknown_data: bool,
}

const LOCAL: &str = "local.json";

/// Sampled sign flips, where there are more than 20 conversations.
const REPLICATION: Replication = Replication {
    replicates: 20_000,
    seed: 0,
};

/// What `rawrag run` is asked beside the experiment.
pub(super) struct Asked {
    pub(super) data: Option<PathBuf>,
    pub(super) out: Option<PathBuf>,
    pub(super) unknown_data: bool,
    /// The folder of wrapped systems' environments.
    pub(super) systems: Option<PathBuf>,
    #[cfg(feature = "remote")]
    pub(super) dry_run: bool,
    #[cfg(feature = "remote")]
    pub(super) calls: super::stages::Calls,
}

/// Where a run is kept unless it is said: below `runs/`, under the experiment's name.
pub(super) fn usual_folder(experiment: &Path) -> PathBuf {
    Path::new("runs").join(experiment.file_stem().unwrap_or_default())
}

pub(super) fn run(weights: &Weights, path: &Path, asked: Asked) -> Result<(), Failure> {
    let experiment = Experiment::read(path)?;
    let Asked {
        data,
        out,
        unknown_data,
        systems,
        ..
    } = asked;
    #[cfg(feature = "remote")]
    let (calls, dry_run) = (asked.calls, asked.dry_run);
    #[cfg(feature = "remote")]
    let stages = super::stages::prepare(&experiment, &calls)?;
    let folder = out.unwrap_or_else(|| usual_folder(path));
    let name = run_name(path, &folder);
    let data = data.or_else(|| experiment.data.clone()).ok_or_else(|| {
        Failure::Usage(format!(
            "{name} measures on {}, which does not ship with the project: say --data PATH",
            experiment.benchmark
        ))
    })?;
    let job = Job {
        experiment: &experiment,
        name: &name,
        data: &data,
        folder: &folder,
        unknown_data,
        #[cfg(feature = "remote")]
        stages: stages.as_ref(),
    };
    let begun = std::time::Instant::now();
    let mut searched = 0;
    let bar = bar(0, "questions");
    let watch = |progress| match progress {
        Progress::Begun { questions, held } => {
            // The run is begun, so what it needs to go on can be kept beside it.
            keep(&folder, path, &data, unknown_data);
            bar.set_length(questions as u64);
            bar.set_position(held as u64);
            bar.reset_eta();
            if held == questions {
                models::notice("every question is on record already; nothing was run");
            }
        }
        Progress::Question => {
            searched += 1;
            bar.inc(1);
        }
    };
    let run = if let Some(asks) = &experiment.memory {
        #[cfg(feature = "remote")]
        let allowed = calls.failures_allowed;
        #[cfg(not(feature = "remote"))]
        let allowed = 0.0;
        let ready = super::memory::ready(
            weights,
            asks,
            experiment.evidence.assembly(),
            experiment.cross_encoder.as_deref(),
            &folder.join("system"),
            systems.as_deref(),
        )?;
        memory::run(&job, ready, allowed, watch)?
    } else {
        let models = models::load(weights, experiment.cross_encoder.as_deref())?;
        pipeline::run(&job, models, watch)?
    };
    bar.finish_and_clear();
    pipeline::time(&run, "retrieval", searched, begun)?;
    #[cfg(feature = "remote")]
    if let Some(stages) = &stages {
        super::stages::finish(&experiment, stages, &data, &run, &calls, dry_run)?;
        if dry_run {
            return Ok(());
        }
    }
    let mut out = io::stdout().lock();
    summarise(&mut out, &run)?;
    #[cfg(feature = "remote")]
    super::stages::summarise(&mut out, &run)?;
    Ok(())
}

/// What a run is called: as its experiment, or as its folder where the experiment lies in it.
fn run_name(experiment: &Path, folder: &Path) -> String {
    let beside = experiment.parent() == Some(folder);
    let name = match beside {
        true => folder.file_name(),
        false => experiment.file_stem(),
    };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn resume(
    weights: &Weights,
    run: &Path,
    #[cfg(feature = "remote")] calls: super::stages::Calls,
) -> Result<(), Failure> {
    let folder = find(run);
    let local = local(&folder)?;
    let asked = Asked {
        data: Some(local.data),
        out: Some(folder),
        unknown_data: local.unknown_data,
        systems: None,
        #[cfg(feature = "remote")]
        dry_run: false,
        #[cfg(feature = "remote")]
        calls,
    };
    self::run(weights, &local.experiment, asked)
}

pub(super) fn list(folder: &Path) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let entries = fs::read_dir(folder).map_err(|e| {
        Failure::Input(format!("{}: {e}; runs are made by `rawrag run`", folder.display()).into())
    })?;
    let mut folders: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<io::Result<_>>()?;
    folders.sort();
    for folder in folders
        .iter()
        .filter(|folder| folder.join("manifest.json").exists())
    {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        match Run::open(folder).and_then(|run| Ok((progress(&run)?, run))) {
            Ok((progress, run)) => {
                let Manifest {
                    benchmark,
                    system,
                    started,
                    ..
                } = run.manifest();
                writeln!(
                    out,
                    "{name:40} {benchmark:12} {:16} {progress}  {started}",
                    system.name
                )?;
            }
            Err(error) => writeln!(out, "{name:40} {error}")?,
        }
    }
    Ok(())
}

/// `12/12 questions, 12/12 answers, 36/36 judgments`, as far as the run has these stages.
fn progress(run: &Run) -> Result<String, RecordError> {
    let Expected {
        questions,
        answers,
        judgments,
        ..
    } = &run.manifest().expected;
    let retrieved = match run.read::<Retrieval>()?.len() {
        0 => run.read::<Search>()?.len(),
        retrieved => retrieved,
    };
    let mut parts = Vec::new();
    if retrieved > 0 || *answers == 0 || run.manifest().import().is_none() {
        parts.push(format!("{retrieved}/{questions} questions"));
    }
    let answers = questions * *answers as usize;
    if answers > 0 {
        parts.push(format!("{}/{answers} answers", run.read::<Answer>()?.len()));
    }
    let judgments = answers * judgments.values().sum::<u32>() as usize;
    if judgments > 0 {
        let graded = run.read::<Judgment>()?.len();
        parts.push(format!("{graded}/{judgments} judgments"));
    }
    Ok(parts.join(", "))
}

pub(super) fn show(run: &Path, wanted: &str, data: Option<PathBuf>) -> Result<(), Failure> {
    let folder = find(run);
    let run = Run::open(&folder)?;
    let records = run.read::<Retrieval>()?;
    let searches = run.read::<Search>()?;
    let keys: Vec<Key> = match records.is_empty() {
        true => searches.iter().map(Search::question_key).collect(),
        false => records.iter().map(Retrieval::question_key).collect(),
    };
    let key = one(&keys, wanted)?;
    let data = match data {
        Some(data) => data,
        None => local(&folder)?.data,
    };
    let mut found = None;
    let report = crate::corpus::read::<Failure>(&data, None, |entry| {
        if entry.conversation.id.as_str() == key.conversation {
            found = Some(entry);
        }
        Ok(())
    })?;
    if report.hash.to_string() != run.manifest().data.sha256 {
        let text = format!(
            "{} is not the data that the run was made on",
            data.display()
        );
        return Err(Failure::Input(text.into()));
    }
    let Entry {
        conversation,
        questions,
    } = found.ok_or_else(|| {
        Failure::Input(format!("{} has no {}", data.display(), key.conversation).into())
    })?;
    let question = questions
        .iter()
        .find(|question| pipeline::key(question) == *key)
        .ok_or_else(|| Failure::Input(format!("{} has no {wanted}", data.display()).into()))?;
    let mut out = io::stdout().lock();
    if let Some(record) = records.iter().find(|r| r.question_key() == *key) {
        print_question(&mut out, record, question, &conversation)?;
    } else if let Some(search) = searches.iter().find(|s| s.question_key() == *key) {
        let mut items = run.read::<EvidenceItem>()?;
        items.retain(|item| item.question_key() == *key);
        print_search(&mut out, search, &items, question, &conversation)?;
    }
    print_answers(&mut out, &run, key)?;
    Ok(())
}

fn print_answers(out: &mut impl Write, run: &Run, key: &Key) -> Result<(), Failure> {
    let judgments = run.read::<Judgment>()?;
    let answers = run.read::<Answer>()?;
    for answer in answers
        .iter()
        .filter(|answer| answer.question_key() == *key)
    {
        let outcome = name(&answer.outcome);
        let text = answer.text.as_deref().or(answer.error.as_deref());
        writeln!(
            out,
            "\nanswer ({outcome}): {}",
            text.unwrap_or("no text is kept")
        )?;
        let of_answer =
            |j: &&Judgment| j.question_key() == *key && j.repetition == answer.repetition;
        for judgment in judgments.iter().filter(of_answer) {
            let reply = judgment.reply.as_deref().or(judgment.error.as_deref());
            let (judge, outcome) = (&judgment.judge, name(&judgment.outcome));
            writeln!(out, "  {judge}: {outcome}: {}", brief(reply.unwrap_or("")))?;
        }
    }
    Ok(())
}

/// An outcome as records spell it.
fn name(outcome: &impl Serialize) -> String {
    let text = serde_json::json!(outcome);
    text.as_str().unwrap_or_default().to_owned()
}

pub(super) fn compare(left: &Path, right: &Path) -> Result<(), Failure> {
    let (left, right) = (Run::open(&find(left))?, Run::open(&find(right))?);
    let (a, b) = (left.read_complete()?, right.read_complete()?);
    let mut out = io::stdout().lock();
    let differences = left.manifest().differences(right.manifest());
    writeln!(
        out,
        "A {}\nB {}\n",
        left.folder().display(),
        right.folder().display()
    )?;
    if differences.is_empty() {
        writeln!(out, "The two runs did the same.")?;
    }
    for difference in &differences {
        writeln!(out, "{difference}")?;
    }
    let asked = |run: &Run| {
        let expected = &run.manifest().expected;
        (expected.questions, expected.keys_sha256.clone())
    };
    if asked(&left) != asked(&right) {
        let text =
            "the runs answer different questions and cannot be compared question by question";
        return Err(Failure::Input(text.into()));
    }
    compare_judgments(&mut out, &a.judgments, &b.judgments)?;
    let of = |records: &Complete| {
        summary::found(&records.retrievals, &records.searches, &records.evidence)
    };
    let (a, b) = (of(&a), of(&b));
    if a.is_empty() || b.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n    k  questions  all of the evidence: A      B    only A  only B  p by question  by conversation"
    )?;
    let deepest = |run: &Run| cutoffs(run).into_iter().max().unwrap_or(0);
    let shared = deepest(&left).min(deepest(&right));
    let depths = cutoffs(&left).into_iter().filter(|&k| k <= shared);
    let by_key = |found: Vec<Found>| {
        let pair = |found: Found| (found.key, found.ranking);
        found.into_iter().map(pair).collect::<BTreeMap<_, _>>()
    };
    let (a, b) = (by_key(a), by_key(b));
    for k in depths {
        let mut counts = PairCounts::default();
        let mut by_conversation: BTreeMap<&str, f64> = BTreeMap::new();
        for ((key, left), right) in a.iter().zip(b.values()) {
            let all = |ranking: &Option<Ranking>| ranking.as_ref()?.recall_all(k);
            let (Some(left), Some(right)) = (all(left), all(right)) else {
                continue;
            };
            let difference = by_conversation.entry(&key.conversation).or_default();
            let cell = match (left, right) {
                (true, true) => &mut counts.both,
                (true, false) => &mut counts.a_only,
                (false, true) => &mut counts.b_only,
                (false, false) => &mut counts.neither,
            };
            *cell += 1;
            *difference += f64::from(i8::from(left) - i8::from(right));
        }
        let n = counts.units();
        let rate = |hits: u64| percent((n > 0).then(|| hits as f64 / n as f64));
        let (rate_a, rate_b) = (
            rate(counts.both + counts.a_only),
            rate(counts.both + counts.b_only),
        );
        let differences: Vec<f64> = by_conversation.into_values().collect();
        let (by_question, by_cluster) = (
            counts.exact().to_string(),
            sign_flip(&differences, REPLICATION).p.to_string(),
        );
        let (a_only, b_only) = (counts.a_only, counts.b_only);
        writeln!(
            out,
            "{k:5}  {n:9}  {rate_a:>22} {rate_b:>6}  {a_only:8} {b_only:7}  {by_question:>13}  {by_cluster:>15}"
        )?;
    }
    writeln!(
        out,
        "\nExact McNemar test by question; exact sign-flip test over conversations, whose questions are not independent."
    )?;
    Ok(())
}

/// Grades of judges that both runs have, grade by grade.
fn compare_judgments(out: &mut impl Write, a: &[Judgment], b: &[Judgment]) -> io::Result<()> {
    let by_slot = |judgments: &[Judgment]| {
        let mut judges: BTreeMap<String, BTreeMap<_, bool>> = BTreeMap::new();
        for judgment in judgments {
            let correct = judgment.outcome == JudgmentOutcome::Correct;
            let slot = (
                judgment.question_key(),
                judgment.repetition,
                judgment.judge_repetition,
            );
            let judge = judges.entry(judgment.judge.clone()).or_default();
            judge.insert(slot, correct);
        }
        judges
    };
    let (a, b) = (by_slot(a), by_slot(b));
    for (judge, a) in a {
        let Some(b) = b.get(&judge) else { continue };
        let mut counts = [0_usize; 4];
        for (slot, &left) in &a {
            if let Some(&right) = b.get(slot) {
                counts[usize::from(left) + 2 * usize::from(right)] += 1;
            }
        }
        let [neither, a_only, b_only, both] = counts;
        let n = neither + a_only + b_only + both;
        let share = |hits: usize| percent((n > 0).then(|| hits as f64 / n as f64));
        writeln!(
            out,
            "\njudge {judge}: {n} grades; correct in A {} %, in B {} %; {a_only} only in A, {b_only} only in B",
            share(both + a_only),
            share(both + b_only)
        )?;
    }
    Ok(())
}

fn summarise(out: &mut impl Write, run: &Run) -> Result<(), Failure> {
    let records = run.read::<Retrieval>()?;
    let searches = run.read::<Search>()?;
    if records.is_empty() && !searches.is_empty() {
        return super::memory::summarise(out, run, &searches, &cutoffs(run));
    }
    run.require_complete(&records)?;
    let manifest = run.manifest();
    writeln!(
        out,
        "{} on {}: {} questions",
        manifest.name,
        manifest.benchmark,
        records.len()
    )?;
    if let Some(models) = manifest.models.get("late_interaction") {
        writeln!(
            out,
            "ranked by late interaction over {}, not by a cross-encoder",
            models.name
        )?;
    }
    let found = summary::found(&records, &[], &[]);
    print_depths(out, &summary::by_depth(&found, &cutoffs(run)))?;
    let removed = percent(summary::dense_removed(&records));
    writeln!(
        out,
        "\nThe dense stage removed chunks for {removed} % of the questions."
    )?;
    writeln!(out, "Records: {}", run.folder().display())?;
    Ok(())
}

pub(super) fn print_depths(out: &mut impl Write, depths: &[Depth]) -> io::Result<()> {
    writeln!(out, "\n    k  with evidence  any found  all found  tokens")?;
    for depth in depths {
        let tokens = depth
            .tokens
            .map_or("-".to_owned(), |tokens| format!("{tokens:.0}"));
        let (any, all) = (percent(depth.any), percent(depth.all));
        writeln!(
            out,
            "{:5}  {:13}  {any:>9}  {all:>9}  {tokens:>6}",
            depth.k, depth.questions
        )?;
    }
    Ok(())
}

fn print_question(
    out: &mut impl Write,
    record: &Retrieval,
    question: &Question,
    conversation: &Conversation,
) -> io::Result<()> {
    print_asked(out, question, &record.question_key(), &record.kind)?;
    writeln!(
        out,
        "{} chunks visible, {} past the dense stage, {} returned in {:.1} ms\n",
        record.available,
        record.shortlist,
        record.chunks.len(),
        record.milliseconds
    )?;
    for rank in 0..record.chunks.len() {
        let (first, last) = (record.first_message[rank], record.last_message[rank]);
        let held = record
            .gold_messages
            .iter()
            .filter(|gold| (first..=last).contains(gold))
            .count();
        let mark = if held > 0 { '*' } else { ' ' };
        let dense = match (record.dense_score.get(rank), record.dense_rank.get(rank)) {
            (Some(score), Some(rank)) => format!("  cosine {score:.3}, rank {rank}"),
            _ => String::new(),
        };
        writeln!(
            out,
            "{mark}{:3}. {:.3}{dense}  {} tokens",
            rank + 1,
            record.score[rank],
            record.tokens[rank]
        )?;
        for position in first..=last.min(first + 2) {
            print_message(out, conversation, position)?;
        }
        if last > first + 2 {
            writeln!(out, "      and {} more messages", last - first - 2)?;
        }
    }
    let spans = || record.first_message.iter().zip(&record.last_message);
    let missed = record
        .gold_messages
        .iter()
        .copied()
        .filter(|gold| !spans().any(|(first, last)| (first..=last).contains(&gold)))
        .collect();
    print_missed(out, conversation, record.gold_messages.len(), missed)
}

/// What a memory system returned for a question.
fn print_search(
    out: &mut impl Write,
    search: &Search,
    items: &[EvidenceItem],
    question: &Question,
    conversation: &Conversation,
) -> io::Result<()> {
    print_asked(out, question, &search.question_key(), &search.kind)?;
    if let Some(error) = &search.error {
        writeln!(out, "The search failed: {error}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} items returned of {} asked for in {:.1} ms, {} tokens\n",
        search.returned, search.requested, search.milliseconds, search.evidence_tokens
    )?;
    let from = |item: &EvidenceItem| item.messages.clone().unwrap_or_default();
    for item in items {
        let gold = |message: &u32| search.gold_messages.contains(message);
        let mark = if from(item).iter().any(gold) {
            '*'
        } else {
            ' '
        };
        let score = item
            .score
            .map_or(String::new(), |score| format!(" {score:.3}"));
        let origin = match &item.messages {
            Some(messages) => format!("{} messages", messages.len()),
            None => "unknown origin".to_owned(),
        };
        writeln!(
            out,
            "{mark}{:3}.{score}  {} tokens, {origin}",
            item.rank, item.tokens
        )?;
        let text = item
            .text
            .as_deref()
            .map_or("no text is kept".to_owned(), brief);
        writeln!(out, "      {text}")?;
    }
    let shown: Vec<u32> = items.iter().flat_map(from).collect();
    let gold = search.gold_messages.iter().copied();
    let missed = gold.filter(|gold| !shown.contains(gold)).collect();
    print_missed(out, conversation, search.gold_messages.len(), missed)
}

fn print_message(
    out: &mut impl Write,
    conversation: &Conversation,
    position: u32,
) -> io::Result<()> {
    let mut messages = conversation.messages();
    let found = messages.find(|(_, at, _)| *at == MessagePosition(position));
    let Some((_, _, message)) = found else {
        return Ok(());
    };
    let (id, speaker, text) = (&message.id, &message.speaker, brief(&message.text));
    writeln!(out, "      {id} {speaker}: {text}")
}

fn print_missed(
    out: &mut impl Write,
    conversation: &Conversation,
    gold: usize,
    missed: Vec<u32>,
) -> io::Result<()> {
    match (gold, missed.len()) {
        (0, _) => writeln!(out, "\nThe question names no evidence.")?,
        (gold, 0) => writeln!(out, "\nAll {gold} gold messages (*) were returned.")?,
        (gold, n) => writeln!(out, "\n{n} of {gold} gold messages were missed:")?,
    }
    for position in missed {
        print_message(out, conversation, position)?;
    }
    Ok(())
}

/// The question, and what a good answer is.
fn print_asked(out: &mut impl Write, question: &Question, key: &Key, kind: &str) -> io::Result<()> {
    writeln!(out, "{key} ({kind})")?;
    writeln!(out, "{}", question.text)?;
    if let Some(gold) = &question.gold {
        use crate::corpus::Gold;
        match gold {
            Gold::Answer(answer) => writeln!(out, "gold: {answer}")?,
            Gold::Adversarial { lure, .. } => {
                writeln!(
                    out,
                    "adversarial: nothing was said of it; the lure is {lure}"
                )?;
            }
            Gold::Abstention { explanation } => {
                writeln!(out, "not to be answered: {explanation}")?;
            }
            Gold::Choice { option } => {
                let text = question.options.get(*option as usize);
                writeln!(out, "right: {}", text.map_or("", String::as_str))?;
            }
            Gold::Rubric { points, .. } => {
                writeln!(out, "a good reply says:")?;
                points
                    .iter()
                    .try_for_each(|point| writeln!(out, "  {point}"))?;
            }
        }
    }
    Ok(())
}

/// The one question whose id is, or ends in, `wanted`.
fn one<'a>(keys: &'a [Key], wanted: &str) -> Result<&'a Key, Failure> {
    let exact = |key: &&Key| key.question == wanted || key.to_string() == wanted;
    let mut matching: Vec<&Key> = keys.iter().filter(exact).collect();
    if matching.is_empty() {
        matching = keys
            .iter()
            .filter(|key| key.question.ends_with(wanted))
            .collect();
    }
    match matching[..] {
        [key] => Ok(key),
        [] => Err(Failure::Usage(format!("the run has no question {wanted}"))),
        [first, ..] => Err(Failure::Usage(format!(
            "{} questions end in {wanted}; name one whole, like \"{first}\"",
            matching.len(),
        ))),
    }
}

/// A run by its folder, or by its name below `runs/`.
pub(super) fn find(run: &Path) -> PathBuf {
    let named = Path::new("runs").join(run);
    if !run.join("manifest.json").exists() && named.join("manifest.json").exists() {
        return named;
    }
    run.to_owned()
}

pub(super) fn keep(folder: &Path, experiment: &Path, data: &Path, unknown_data: bool) {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let local = Local {
        experiment: absolute(experiment),
        data: absolute(data),
        unknown_data,
    };
    // Only a convenience for `resume` and `show`: a run without it can still be named in full.
    if let Ok(text) = serde_json::to_string_pretty(&local) {
        let _ = fs::write(folder.join(LOCAL), text);
    }
}

pub(super) fn local(folder: &Path) -> Result<Local, Failure> {
    let path = folder.join(LOCAL);
    let text = fs::read(&path).map_err(|_| {
        Failure::Usage(format!(
            "{} does not say where its data is: name it with --data",
            folder.display()
        ))
    })?;
    serde_json::from_slice(&text)
        .map_err(|e| Failure::Input(format!("{}: {e}", path.display()).into()))
}

/// The numbers of items at which a run counts evidence tokens.
fn cutoffs(run: &Run) -> Vec<usize> {
    let cutoffs = &run.manifest().settings["evidence"]["cutoffs"];
    let list = cutoffs.as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .filter_map(|k| k.as_u64())
        .map(|k| k as usize)
        .collect()
}

pub(super) fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1}", 100.0 * rate))
}

fn brief(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
