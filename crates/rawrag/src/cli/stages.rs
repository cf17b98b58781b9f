use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use crate::answering::{self, Work};
use crate::assessing;
use crate::experiment::{Experiment, JudgeSettings};
use crate::judging;
use crate::models::prices::{CostRange, Planned, PriceTable, Totals};
use crate::models::remote::Stop;
use crate::pipeline::is_script;
use crate::pruning;
use crate::records::{
    Answer, AnswerOutcome, Assessment, AssessmentOutcome, History, Judgment, JudgmentOutcome,
    Pruning, Record, Retrieval, Run, Search, SearchOutcome, Selection, SelectionOutcome, Timing,
    Usage,
};
use crate::selecting;
use crate::services::{self, Calling, Services, Stages, Step};
use serde::Deserialize;

use super::failure::Failure;
use super::{bar, models, runs};

/// How services are called.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Calls {
    /// Dollars that the run may cost in all, calls made before included
    #[arg(long, value_name = "DOLLARS")]
    max_cost: Option<f64>,
    /// The folder of the response cache [default: cache/ beside the run's folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Make no call: a reply that the cache does not hold is an error
    #[arg(long)]
    cached_only: bool,
    /// The share of a stage's calls or searches, from 0 to 1, that may fail and be scored as failures
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(super) failures_allowed: f64,
}

impl Calls {
    fn check(&self) -> Result<(), Failure> {
        if !(0.0..=1.0).contains(&self.failures_allowed) {
            let text = format!(
                "--failures-allowed is {}; say 0 to 1",
                self.failures_allowed
            );
            return Err(Failure::Usage(text));
        }
        if self
            .max_cost
            .is_some_and(|limit| limit.is_nan() || limit < 0.0)
        {
            return Err(Failure::Usage("--max-cost must be 0 or more".into()));
        }
        Ok(())
    }
}

/// The stages of an experiment that call services, with the addresses printed.
pub(super) fn prepare<'a>(
    experiment: &'a Experiment,
    calls: &Calls,
) -> Result<Option<Stages<'a>>, Failure> {
    calls.check()?;
    let stages = Stages::prepare(experiment, &environment)?;
    if let Some(stages) = &stages {
        announce(stages);
    }
    Ok(stages)
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn announce(stages: &Stages<'_>) {
    for (part, model, address) in stages.addresses() {
        models::notice(&format!("{part}: {model} at {address}"));
    }
    if stages.is_scripted() {
        models::notice(SCRIPTED);
    }
    if stages.reads_by_pattern() {
        models::notice(PATTERN);
    }
}

pub(super) const SCRIPTED: &str =
    "Replies come from a script: nothing here measures the quality of answers or of grades.";

pub(super) const PATTERN: &str = "Synthetic: the reader knows the generator's sentences and is no model. Nothing here measures one.";

/// Does what is left of assessing, answering and judging, or says what it would cost.
pub(super) fn finish(
    experiment: &Experiment,
    stages: &Stages<'_>,
    data: &Path,
    run: &Run,
    calls: &Calls,
    dry_run: bool,
) -> Result<(), Failure> {
    let (table, limit) = services::prices(experiment.prices.as_ref(), calls.max_cost)?;
    let work = Work {
        experiment,
        stages,
        data,
        run,
        failures_allowed: calls.failures_allowed,
    };
    let mut out = io::stdout().lock();
    announce_price(&mut out, &work, table.as_ref())?;
    if dry_run {
        writeln!(out, "No call was made.")?;
        return Ok(());
    }
    drop(out);
    let services = open(run, stages, calls, table.clone().zip(limit))?;
    let cost = |totals: &Totals| cost(totals, table.as_ref());
    let mut show = steps(&services, &cost);
    let done = selecting::run(&work, &services, &mut show)
        .and_then(|()| pruning::run(&work, &services, &mut show))
        .and_then(|()| assessing::run(&work, &services, &mut show))
        .and_then(|()| answering::run(&work, &services, &mut show))
        .and_then(|()| judging::run(&work, &services, &mut show));
    drop(show);
    if done.is_err() {
        models::notice(&format!("Cost so far: {}", cost(&services.totals())));
    }
    done?;
    run.require_complete(&run.read::<Assessment>()?)?;
    run.require_complete(&run.read::<Judgment>()?)?;
    Ok(())
}

fn open(
    run: &Run,
    stages: &Stages<'_>,
    calls: &Calls,
    limit: Option<(PriceTable, f64)>,
) -> Result<Services, Failure> {
    let beside = run.folder().parent().unwrap_or(Path::new("")).join("cache");
    let cache = calls.cache.as_deref().unwrap_or(&beside);
    let calling = Calling {
        // Rules leave nothing to keep.
        cache: (!stages.addresses().is_empty()).then_some(cache),
        cached_only: calls.cached_only,
        limit,
        stop: interruptible()?,
    };
    Ok(Services::open(run, calling)?)
}

/// A switch that the person at the terminal throws: the first interrupt lets calls under way
/// finish, the second breaks them off.
fn interruptible() -> Result<Stop, Failure> {
    let stop = Stop::default();
    let asked = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                let text = match asked.is_requested() {
                    false => "finishing the calls under way; interrupt again to break them off",
                    true => "breaking off",
                };
                models::notice(text);
                asked.request();
            }
        });
    });
    Ok(stop)
}

/// A progress bar for each stage, with what it cost and how many calls failed.
fn steps<'a>(
    services: &'a Services,
    cost: &'a dyn Fn(&Totals) -> String,
) -> impl FnMut(Step) + use<'a> {
    let mut shown: Option<(indicatif::ProgressBar, String, u64)> = None;
    move |step| match step {
        Step::Begun { stage, total, held } => {
            if let Some((bar, ..)) = shown.take() {
                bar.finish_and_clear();
            }
            if held == total {
                let text = format!("{stage}: all {total} are on record already; nothing was asked");
                models::notice(&text);
            }
            let bar = bar(total as u64, "").with_message(stage.clone());
            bar.set_position(held as u64);
            bar.reset_eta();
            shown = Some((bar, stage, 0));
        }
        Step::One { failed } => {
            if let Some((bar, stage, failures)) = &mut shown {
                *failures += u64::from(failed);
                bar.inc(1);
                // Summing up the ledger for each of many calls would cost more than it tells.
                if bar.position().is_multiple_of(32) {
                    let spent = cost(&services.totals());
                    bar.set_message(format!("{stage}, {spent}, {failures} failed"));
                }
            }
        }
    }
}

fn announce_price(
    out: &mut impl Write,
    work: &Work<'_>,
    table: Option<&PriceTable>,
) -> Result<(), Failure> {
    let once = |stage: &str, plan: Option<Planned>| {
        plan.map(|plan| (stage.to_owned(), plan.clone(), plan))
    };
    let selected = once("selecting", selecting::plan(work)?);
    let pruned = once("pruning", pruning::plan(work)?);
    let assessed = work.stages.assessors.iter().zip(assessing::plan(work)?);
    let assessed = assessed.filter_map(|(assessor, plan)| {
        let plan = plan?;
        Some((
            format!("assessing by {}", assessor.name),
            plan.clone(),
            plan,
        ))
    });
    let answers = answering::plan(work)?;
    let answers = answers.map(|plan| ("answering".to_owned(), plan.clone(), plan));
    let judged = work.stages.judges.iter().zip(judging::plan(work)?);
    let judged = judged.filter_map(|(judge, plan)| {
        let (low, high) = plan?;
        Some((format!("judging by {}", judge.name), low, high))
    });
    let (mut low, mut high) = (Vec::new(), Vec::new());
    let refined = selected.into_iter().chain(pruned);
    for (stage, least, most) in refined.chain(assessed).chain(answers).chain(judged) {
        if least.calls == 0 {
            continue;
        }
        let (from, to) = (least.input, most.input);
        let input = match from == to {
            true => from.to_string(),
            false => format!("{from} to {to}"),
        };
        writeln!(
            out,
            "{stage}: {} calls of {}, {input} tokens sent (o200k_base), at most {} received",
            least.calls,
            least.model,
            least.calls * least.max_output
        )?;
        low.push(least);
        high.push(most);
    }
    if low.is_empty() {
        return Ok(());
    }
    let price = |table: &PriceTable, plan: &[Planned]| table.estimate(plan, &services::today());
    match table {
        None => writeln!(out, "Price: unknown; name a price table in [prices].")?,
        Some(table) => match (price(table, &low), price(table, &high)) {
            (Ok(low), Ok(high)) => {
                let range = CostRange {
                    low: low.low,
                    high: high.high,
                };
                writeln!(out, "Price: {range}, less what the response cache holds.")?;
            }
            (Err(error), _) | (_, Err(error)) => writeln!(out, "Price: unknown; {error}.")?,
        },
    }
    Ok(())
}

fn cost(totals: &Totals, table: Option<&PriceTable>) -> String {
    let Some(table) = table else {
        return "cost unknown".to_owned();
    };
    match totals.cost(table, &services::today(), |_| true) {
        Ok(range) => range.to_string(),
        Err(_) => "cost unknown".to_owned(),
    }
}

/// What a run's answers and grades are, and what they cost.
pub(super) fn summarise(out: &mut impl Write, run: &Run) -> Result<(), Failure> {
    let expected = &run.manifest().expected;
    let refined = refinements(run)?;
    if expected.answers == 0 && expected.assessments.is_empty() && refined.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for line in refined {
        writeln!(out, "{line}")?;
    }
    assessments(out, &run.read()?)?;
    if expected.answers > 0 {
        outcomes(out, &run.read()?, &run.read()?)?;
    }
    for said in disclaimers(run) {
        writeln!(out, "{said}")?;
    }
    spending(out, run)
}

/// What selector and pruner left, a line each.
fn refinements(run: &Run) -> Result<Vec<String>, Failure> {
    let (selections, prunings) = (run.read::<Selection>()?, run.read::<Pruning>()?);
    let mut lines = Vec::new();
    if !selections.is_empty() {
        let outcomes = counts(selections.iter().map(|s| selection_outcome(s.outcome)));
        let mean = |of: fn(&Selection) -> u32| {
            let sum: u32 = selections.iter().map(of).sum();
            f64::from(sum) / selections.len() as f64
        };
        lines.push(format!(
            "selector: {outcomes}; {:.1} of the shortlist kept by the mean, {:.1} requests a question",
            mean(|s| s.kept),
            mean(|s| s.requests)
        ));
    }
    if !prunings.is_empty() {
        let outcomes = counts(prunings.iter().map(|p| answer_outcome(p.outcome)));
        let whole = prunings
            .iter()
            .filter_map(|p| Some((p.tokens_before, p.tokens?)));
        let (before, after) = whole.fold((0_u64, 0_u64), |(before, after), (b, a)| {
            (before + u64::from(b), after + u64::from(a))
        });
        lines.push(format!(
            "pruner: {outcomes}; {after} of {before} evidence tokens left where it replied"
        ));
    }
    Ok(lines)
}

fn selection_outcome(outcome: SelectionOutcome) -> &'static str {
    match outcome {
        SelectionOutcome::Selected => "selected",
        SelectionOutcome::Unparsed => "unparsed",
        SelectionOutcome::Failed => "failed",
    }
}

/// What has to be said beside any number of a run.
pub(super) fn disclaimers(run: &Run) -> Vec<&'static str> {
    let models = &run.manifest().models;
    let has = |is: &dyn Fn(&str) -> bool| models.values().any(|model| is(&model.name));
    let said = [
        (has(&is_script), SCRIPTED),
        (has(&|name| name == services::PATTERN), PATTERN),
    ];
    let said = said.into_iter().filter(|(has, _)| *has);
    said.map(|(_, text)| text).collect()
}

/// For how many questions each assessor found the evidence sufficient.
fn assessments(out: &mut impl Write, assessments: &[Assessment]) -> io::Result<()> {
    let mut by_assessor: BTreeMap<&str, Vec<&Assessment>> = BTreeMap::new();
    for assessment in assessments {
        let of = by_assessor.entry(&assessment.assessor).or_default();
        of.push(assessment);
    }
    for (assessor, assessments) in by_assessor {
        let outcomes = assessments.iter().map(|a| assessment_outcome(a.outcome));
        let sufficient = assessments
            .iter()
            .filter(|a| a.sufficient == Some(true))
            .count();
        let n = assessments.len();
        let share = runs::percent(Some(sufficient as f64 / n as f64));
        writeln!(
            out,
            "assessor {assessor}: {}; evidence is sufficient for {share} % of {n}, unparsed and \
             failed counted as not",
            counts(outcomes)
        )?;
    }
    Ok(())
}

fn assessment_outcome(outcome: AssessmentOutcome) -> &'static str {
    match outcome {
        AssessmentOutcome::Assessed => "assessed",
        AssessmentOutcome::Unparsed => "unparsed",
        AssessmentOutcome::Failed => "failed",
    }
}

fn outcomes(out: &mut impl Write, answers: &[Answer], judgments: &[Judgment]) -> io::Result<()> {
    let of_answers = counts(answers.iter().map(|answer| answer_outcome(answer.outcome)));
    writeln!(out, "answers: {of_answers}")?;
    let mut by_judge: BTreeMap<&str, Vec<JudgmentOutcome>> = BTreeMap::new();
    for judgment in judgments {
        by_judge
            .entry(&judgment.judge)
            .or_default()
            .push(judgment.outcome);
    }
    for (judge, outcomes) in by_judge {
        let correct = outcomes
            .iter()
            .filter(|&&o| o == JudgmentOutcome::Correct)
            .count();
        let share = runs::percent(Some(correct as f64 / outcomes.len() as f64));
        let counted = counts(outcomes.iter().map(|&outcome| judgment_outcome(outcome)));
        writeln!(
            out,
            "judge {judge}: {counted}; {share} % correct of {}, unparsed and failed counted as wrong",
            outcomes.len()
        )?;
    }
    Ok(())
}

fn counts(outcomes: impl Iterator<Item = &'static str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes {
        *counts.entry(outcome).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    match counts.is_empty() {
        true => "none".to_owned(),
        false => counts.join(", "),
    }
}

fn answer_outcome(outcome: AnswerOutcome) -> &'static str {
    match outcome {
        AnswerOutcome::Answered => "answered",
        AnswerOutcome::Empty => "empty",
        AnswerOutcome::Refused => "refused",
        AnswerOutcome::Filtered => "filtered",
        AnswerOutcome::Cut => "cut",
        AnswerOutcome::Failed => "failed",
    }
}

fn judgment_outcome(outcome: JudgmentOutcome) -> &'static str {
    match outcome {
        JudgmentOutcome::Correct => "correct",
        JudgmentOutcome::Wrong => "wrong",
        JudgmentOutcome::Unparsed => "unparsed",
        JudgmentOutcome::Failed => "failed",
    }
}

/// Calls and cost by stage and model, at the prices of the run's experiment.
fn spending(out: &mut impl Write, run: &Run) -> Result<(), Failure> {
    let totals = services::totals(&run.read::<Usage>()?);
    for (stage, model, sum) in totals.iter() {
        writeln!(
            out,
            "{} calls of {model}: {} answered, {} from the cache, {} refused, {} unknown; {} tokens sent, {} received",
            services::stage_name(stage),
            sum.answered,
            sum.cached,
            sum.refused,
            sum.unknown,
            sum.tokens.input,
            sum.tokens.output
        )?;
    }
    let experiment = runs::local(run.folder()).and_then(|l| Ok(Experiment::read(&l.experiment)?));
    let table = experiment.ok().and_then(|experiment| {
        let (table, _) = services::prices(experiment.prices.as_ref(), None).ok()?;
        table
    });
    if totals.iter().next().is_some() {
        writeln!(out, "Cost so far: {}", cost(&totals, table.as_ref()))?;
    }
    Ok(())
}

pub(super) fn status(run: &Path) -> Result<(), Failure> {
    let run = Run::open(&runs::find(run))?;
    let expected = &run.manifest().expected;
    let searches = run.read::<Search>()?;
    let (retrievals, answers, judgments) = (
        run.read::<Retrieval>()?,
        run.read::<Answer>()?,
        run.read::<Judgment>()?,
    );
    let mut out = io::stdout().lock();
    let manifest = run.manifest();
    writeln!(out, "{} on {}", manifest.name, manifest.benchmark)?;
    let asks = manifest.settings["memory"].is_object();
    let retrieves = !asks && (manifest.import().is_none() || !retrievals.is_empty());
    if asks {
        stage(&mut out, "searching", searches.len(), expected.questions)?;
    }
    if retrieves {
        stage(&mut out, "retrieval", retrievals.len(), expected.questions)?;
    }
    let (selections, prunings) = (run.read::<Selection>()?, run.read::<Pruning>()?);
    if manifest.settings["selector"].is_object() {
        stage(&mut out, "selecting", selections.len(), expected.questions)?;
    }
    if manifest.settings["pruner"].is_object() {
        stage(&mut out, "pruning", prunings.len(), expected.questions)?;
    }
    let wanted = expected.questions * expected.answers as usize;
    if wanted > 0 {
        stage(&mut out, "answering", answers.len(), wanted)?;
    }
    for (judge, &repetitions) in &expected.judgments {
        let held = judgments.iter().filter(|j| j.judge == *judge).count();
        let name = format!("judging by {judge}");
        stage(&mut out, &name, held, wanted * repetitions as usize)?;
    }
    let assessments = run.read::<Assessment>()?;
    for (assessor, &repetitions) in &expected.assessments {
        let held = assessments
            .iter()
            .filter(|a| a.assessor == *assessor)
            .count();
        let name = format!("assessing by {assessor}");
        stage(
            &mut out,
            &name,
            held,
            expected.questions * repetitions as usize,
        )?;
    }
    let complete = run.read_complete();
    match &complete {
        Ok(_) => writeln!(out, "complete")?,
        Err(error) => writeln!(out, "{error}")?,
    }
    let sum = |times: &mut dyn Iterator<Item = f64>| times.sum::<f64>() / 1000.0;
    let histories = run.read::<History>()?;
    if retrieves {
        writeln!(
            out,
            "add and ready {:.2} s over {} conversations, search {:.2} s",
            sum(&mut histories.iter().map(|history| history.milliseconds)),
            histories.len(),
            sum(&mut retrievals.iter().map(|retrieval| retrieval.milliseconds)),
        )?;
    }
    if asks {
        super::memory::times(&mut out, &run, &searches)?;
    }
    for timing in run.read::<Timing>()? {
        let Timing {
            stage,
            recorded,
            milliseconds,
            ..
        } = timing;
        writeln!(
            out,
            "{stage} {:.2} s for {recorded} records",
            milliseconds / 1000.0
        )?;
    }
    summarise(&mut out, &run)
}

fn stage(out: &mut impl Write, name: &str, held: usize, wanted: usize) -> io::Result<()> {
    writeln!(out, "{name:28} {held}/{wanted}")
}

/// Lists what gave no answer or no grade, with the reason.
pub(super) fn failures(run: &Path) -> Result<(), Failure> {
    let run = Run::open(&runs::find(run))?;
    let mut out = io::stdout().lock();
    let mut found = 0;
    for search in run.read::<Search>()? {
        if search.outcome == SearchOutcome::Failed {
            found += 1;
            let reason = search.error.as_deref().unwrap_or("");
            writeln!(out, "{}: search failed {reason}", search.identity())?;
        }
    }
    for selection in run.read::<Selection>()? {
        if selection.outcome != SelectionOutcome::Selected {
            found += 1;
            let reason = selection.error.as_deref().unwrap_or("");
            let outcome = selection_outcome(selection.outcome);
            writeln!(
                out,
                "{}: selection {outcome} {reason}",
                selection.identity()
            )?;
        }
    }
    for pruning in run.read::<Pruning>()? {
        if !matches!(
            pruning.outcome,
            AnswerOutcome::Answered | AnswerOutcome::Empty
        ) {
            found += 1;
            let reason = pruning.error.as_deref().unwrap_or("");
            let outcome = answer_outcome(pruning.outcome);
            writeln!(out, "{}: pruning {outcome} {reason}", pruning.identity())?;
        }
    }
    for answer in run.read::<Answer>()? {
        if answer.outcome != AnswerOutcome::Answered {
            found += 1;
            let outcome = answer_outcome(answer.outcome);
            let reason = answer.error.as_deref().unwrap_or("");
            writeln!(out, "{}: {outcome} {reason}", answer.identity())?;
        }
    }
    for judgment in run.read::<Judgment>()? {
        let outcome = judgment.outcome;
        if matches!(outcome, JudgmentOutcome::Unparsed | JudgmentOutcome::Failed) {
            found += 1;
            let reason = judgment.error.as_deref().unwrap_or("");
            let outcome = judgment_outcome(outcome);
            writeln!(out, "{}: {outcome} {reason}", judgment.identity())?;
        }
    }
    for assessment in run.read::<Assessment>()? {
        if assessment.outcome != AssessmentOutcome::Assessed {
            found += 1;
            let reason = assessment.error.as_deref().unwrap_or("");
            let outcome = assessment_outcome(assessment.outcome);
            writeln!(out, "{}: {outcome} {reason}", assessment.identity())?;
        }
    }
    if found == 0 {
        writeln!(
            out,
            "Nothing on record failed; `rawrag status` says what is not on record."
        )?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judges {
    judges: Vec<JudgeSettings>,
}

/// Grades a run's answers by further judges.
pub(super) fn rejudge(run: &Path, judge: &str, calls: &Calls) -> Result<(), Failure> {
    calls.check()?;
    let folder = runs::find(run);
    let local = runs::local(&folder)?;
    let experiment = Experiment::read(&local.experiment)?;
    if experiment.reader.is_none() {
        let text = format!("{} has no answers to grade", folder.display());
        return Err(Failure::Usage(text));
    }
    let judges = judges(&experiment, judge)?;
    let stages = Stages::with_judges(&experiment, &judges, &environment)?;
    announce(&stages);
    let (table, limit) = services::prices(experiment.prices.as_ref(), calls.max_cost)?;
    let run = judging::add(&folder, &local.data, &stages)?;
    run.require_complete(&run.read::<Answer>()?)?;
    let work = Work {
        experiment: &experiment,
        stages: &stages,
        data: &local.data,
        run: &run,
        failures_allowed: calls.failures_allowed,
    };
    announce_price(&mut io::stdout().lock(), &work, table.as_ref())?;
    let services = open(&run, &stages, calls, table.clone().zip(limit))?;
    let cost = |totals: &Totals| cost(totals, table.as_ref());
    judging::run(&work, &services, steps(&services, &cost))?;
    summarise(&mut io::stdout().lock(), &run)
}

/// A file of `[[judges]]`, else the judge of that name in the run's experiment.
fn judges(experiment: &Experiment, wanted: &str) -> Result<Vec<JudgeSettings>, Failure> {
    let named = experiment.judges.iter().find(|judge| judge.name == wanted);
    if let Some(judge) = named {
        return Ok(vec![judge.clone()]);
    }
    let names: Vec<&str> = experiment.judges.iter().map(|j| j.name.as_str()).collect();
    let text = fs::read_to_string(wanted).map_err(|error| {
        Failure::Usage(format!(
            "{wanted} is no judge of the experiment, which has {}, and no file: {error}",
            names.join(", ")
        ))
    })?;
    let file: Judges = toml::from_str(&text)
        .map_err(|error| Failure::Input(format!("{wanted}: {error}").into()))?;
    let mut with_judges = experiment.clone();
    with_judges.judges.clone_from(&file.judges);
    with_judges.check(Path::new(wanted))?;
    Ok(file.judges)
}
