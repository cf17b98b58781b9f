//! Which branch of MEME's readout policy a question gets (Raw-RAG, Appendix G.12).

/// The type of a MEME question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Exact recall.
    ExactRecall,
    /// Aggregation.
    Aggregation,
    /// Tracking.
    Tracking,
    /// Deletion.
    Deletion,
    /// Cascade.
    Cascade,
    /// Absence.
    Absence,
    /// Any other, by the name its data gives it.
    Other,
}

/// The name of the prompt that fills `task_rule` of `meme-readout-policy`.
///
/// The branches are tried in the paper's order and the first that fits is taken: before the
/// change, cascade, absence, deletion, tracking, aggregation, exact recall, and else the latest
/// value. The paper names the branches and not their conditions; here the first fits every
/// question asked before the change, whatever its type.
///
/// ```
/// use rawrag_prompts::readout::{Task, rule};
///
/// assert_eq!(rule(true, Task::Cascade), "meme-readout-before");
/// assert_eq!(rule(false, Task::Cascade), "meme-readout-cascade");
/// ```
pub fn rule(before_change: bool, task: Task) -> &'static str {
    match (before_change, task) {
        (true, _) => "meme-readout-before",
        (false, Task::Cascade) => "meme-readout-cascade",
        (false, Task::Absence) => "meme-readout-absence",
        (false, Task::Deletion) => "meme-readout-deletion",
        (false, Task::Tracking) => "meme-readout-tracking",
        (false, Task::Aggregation) => "meme-readout-aggregation",
        (false, Task::ExactRecall) => "meme-readout-exact-recall",
        (false, Task::Other) => "meme-readout-latest",
    }
}
