//! Experiments that ask a memory system: which one, and what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use rawrag_baselines::managed::MANAGED;
use rawrag_baselines::{HttpSystem, Remote};

use crate::experiment::Memory;
use crate::memory::Ready;
use crate::pipeline::is_script;
use crate::records::{
    Consumption, EvidenceItem, Ingestion, Run, Search, SearchOutcome, StoredObject, WriteDecision,
};
use crate::retrieval::EvidenceSettings;
use crate::summary;

use super::Weights;
use super::failure::Failure;
use super::{models, runs};

/// The system that `memory` names, with `folder` for what it keeps.
pub(super) fn ready(
    weights: &Weights,
    memory: &Memory,
    evidence: EvidenceSettings,
    cross_encoder: Option<&str>,
    folder: &Path,
    systems: Option<&Path>,
) -> Result<Ready, Failure> {
    let load = || models::load(weights, cross_encoder);
    if let Some(ready) = Ready::native(memory, evidence, folder, load)? {
        return Ok(ready);
    }
    #[cfg(feature = "remote")]
    if let Some((_, management, _)) = MANAGED
        .iter()
        .find(|(name, ..)| memory.system.as_deref() == Some(name))
    {
        let models = models::load(weights, cross_encoder)?;
        return Ok(Ready::managed(*management, memory, models)?);
    }
    if let Some(address) = &memory.address {
        let system = HttpSystem::connect(Remote {
            address: address.clone(),
            models: memory.models.clone(),
            settings: memory.settings.clone(),
            call: std::time::Duration::from_secs(memory.limits.seconds),
        })?;
        return Ok(Ready::wrapped(Box::new(system), memory));
    }
    #[cfg(unix)]
    return super::system::launch(weights, memory, folder, systems);
    #[cfg(not(unix))]
    {
        let _ = (folder, systems);
        Err(Failure::Usage(
            "wrappers of memory systems run on Unix".into(),
        ))
    }
}

const SCRIPT: &str = "its chat model is scripted: nothing here measures what the system extracts";

/// What a complete run of a memory system found, and what it did.
pub(super) fn summarise(
    out: &mut impl Write,
    run: &Run,
    searches: &[Search],
    cutoffs: &[usize],
) -> Result<(), Failure> {
    run.require_complete(searches)?;
    let manifest = run.manifest();
    let (name, version) = (&manifest.system.name, &manifest.system.version);
    writeln!(
        out,
        "{} on {}: {} questions to {name} {version}",
        manifest.name,
        manifest.benchmark,
        searches.len()
    )?;
    let description = &manifest.settings["memory"];
    let lacks: Vec<&str> = description["lacks"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    if !lacks.is_empty() {
        writeln!(out, "it does not declare: {}", lacks.join(", "))?;
    }
    let models = manifest.models.values();
    if models.into_iter().any(|model| is_script(&model.name)) {
        writeln!(out, "{SCRIPT}")?;
    }
    let failed = searches
        .iter()
        .filter(|s| s.outcome == SearchOutcome::Failed);
    let failed = failed.count();
    let empty = searches.iter().filter(|s| s.returned == 0).count() - failed;
    let sum = |of: fn(&Search) -> u32| searches.iter().map(|s| u64::from(of(s))).sum::<u64>();
    writeln!(
        out,
        "{} items returned of {} asked for, {empty} searches empty, {failed} failed",
        sum(|search| search.returned),
        sum(|search| search.requested),
    )?;
    times(out, run, searches)?;
    kept(out, run)?;
    let found = summary::found(&[], searches, &run.read::<EvidenceItem>()?);
    let unknown = found.iter().filter(|found| found.ranking.is_none()).count();
    if unknown > 0 {
        writeln!(
            out,
            "{unknown} questions had items of unknown origin and count for tokens only"
        )?;
    }
    runs::print_depths(out, &summary::by_depth(&found, cutoffs))?;
    writeln!(out, "\nRecords: {}", run.folder().display())?;
    Ok(())
}

/// How long adding, getting ready and searching took.
pub(super) fn times(out: &mut impl Write, run: &Run, searches: &[Search]) -> Result<(), Failure> {
    let consumptions: Vec<Consumption> = run.read()?;
    let seconds = |of: fn(&Consumption) -> f64| consumptions.iter().map(of).sum::<f64>() / 1000.0;
    let searching = searches.iter().map(|s| s.milliseconds).sum::<f64>() / 1000.0;
    let tokens: u64 = run
        .read::<Ingestion>()?
        .iter()
        .map(|unit| u64::from(unit.tokens))
        .sum();
    let (add, ready) = (
        seconds(|c| c.add_milliseconds),
        seconds(|c| c.ready_milliseconds),
    );
    writeln!(
        out,
        "add {add:.2} s, ready {ready:.2} s over {} conversations and {tokens} tokens, search {searching:.2} s",
        consumptions.len(),
    )?;
    let calls = |of: fn(&Consumption) -> Option<u32>| {
        let known: Option<Vec<u32>> = consumptions.iter().map(of).collect();
        known.map(|counts| counts.into_iter().map(u64::from).sum::<u64>())
    };
    let chat = calls(|c| c.chat_calls).zip(calls(|c| c.embedding_calls));
    let tokens = calls(|c| c.input_tokens).zip(calls(|c| c.output_tokens));
    match (chat, tokens) {
        (Some((0, 0)), _) => {}
        (Some((chat, embeddings)), Some((input, output))) => writeln!(
            out,
            "the system made {chat} chat calls of {input} tokens sent and {output} received, and {embeddings} calls of its embedder"
        )?,
        _ => writeln!(out, "what the system used is not known")?,
    }
    Ok(())
}

/// What the system keeps, and what it decided.
fn kept(out: &mut impl Write, run: &Run) -> Result<(), Failure> {
    let last = run.read::<StoredObject>()?;
    let last = last.iter().filter(|object| object.phase.is_none()).count();
    let consumptions: Vec<Consumption> = run.read()?;
    let unknown = |of: fn(&Consumption) -> Option<&String>| consumptions.iter().find_map(of);
    match unknown(|c| c.export_error.as_ref()) {
        Some(reason) => writeln!(out, "what is persisted is not known: {reason}")?,
        None => writeln!(out, "{last} persisted objects")?,
    }
    if let Some(reason) = unknown(|c| c.decisions_error.as_ref()) {
        writeln!(out, "what was decided is not known: {reason}")?;
    }
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for decision in run.read::<WriteDecision>()? {
        *counts.entry((decision.level, decision.event)).or_default() += 1;
    }
    for ((level, event), count) in counts {
        let name = format!("{level:?} {event:?}").to_lowercase();
        writeln!(out, "  {name:18} {count}")?;
    }
    Ok(())
}
