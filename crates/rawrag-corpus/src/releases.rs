//! Where each benchmark is published, and what its release holds.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Benchmark, Phase, Report};

/// A published data set that [`read`](crate::read) reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Its name on the command line.
    pub key: &'static str,
    /// The benchmark it is of.
    pub benchmark: Benchmark,
    /// What it is, for a person.
    pub about: &'static str,
    /// The page that it is published on.
    pub page: &'static str,
    /// What the publisher states about its use.
    pub licence: &'static str,
    /// What the paths of its files are relative to, with a slash at the end.
    pub address: &'static str,
    /// Its files, by their paths below the address; what is read is the first one, or the folder
    /// of all where they are several.
    pub files: &'static [File],
    /// A column of the first file that names more files, each by its path below the address.
    pub links: Option<&'static str>,
    /// The canonical hash ([`ContentHash`](crate::ContentHash)), where the project has seen the
    /// files.
    pub content: Option<&'static str>,
}

/// A file of a release.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the release's address. `{N..M}` stands for each number from N to M.
    pub path: &'static str,
    /// SHA-256 of its bytes, where the project has seen it.
    pub sha256: Option<&'static str>,
}

/// A file that the project has not seen.
const fn unseen(path: &'static str) -> File {
    File { path, sha256: None }
}

const LONGMEMEVAL: &str =
    "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned/resolve/main/";
const LONGMEMEVAL_PAGE: &str = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned";
const MEME: &str = "https://huggingface.co/datasets/meme-benchmark/MEME/resolve/main/";
const MEME_PAGE: &str = "https://huggingface.co/datasets/meme-benchmark/MEME";
const BEAM: &str = "https://raw.githubusercontent.com/mohammadtavakoli78/BEAM/b2a3ee8ba12d68f83143dda191097dc3e028ddd3/chats/";
const BEAM_PAGE: &str = "https://github.com/mohammadtavakoli78/BEAM";
const NO_LICENCE: &str = "none stated in the repository";

/// Every release, in the order of [`Benchmark`].
pub const RELEASES: &[Release] = &[
    Release {
        key: "locomo",
        benchmark: Benchmark::Locomo,
        about: "LoCoMo, ten conversations",
        page: "https://github.com/snap-research/locomo",
        licence: "CC BY-NC 4.0",
        address: "https://raw.githubusercontent.com/snap-research/locomo/main/data/",
        files: &[File {
            path: "locomo10.json",
            sha256: Some("79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"),
        }],
        links: None,
        content: Some("768fb79bbac413f32ee8f96b32d6d7a17c0fc9da14dafcf113b81b6b15f7a641"),
    },
    Release {
        key: "longmemeval-s",
        benchmark: Benchmark::Longmemeval,
        about: "LongMemEval-S, 500 questions over about 50 sessions each",
        page: LONGMEMEVAL_PAGE,
        licence: "MIT",
        address: LONGMEMEVAL,
        files: &[unseen("longmemeval_s_cleaned.json")],
        links: None,
        content: None,
    },
    Release {
        key: "longmemeval-m",
        benchmark: Benchmark::Longmemeval,
        about: "LongMemEval-M, 500 questions over about 500 sessions each",
        page: LONGMEMEVAL_PAGE,
        licence: "MIT",
        address: LONGMEMEVAL,
        files: &[unseen("longmemeval_m_cleaned.json")],
        links: None,
        content: None,
    },
    Release {
        key: "longmemeval-oracle",
        benchmark: Benchmark::Longmemeval,
        about: "LongMemEval oracle, 500 questions over their evidence sessions",
        page: LONGMEMEVAL_PAGE,
        licence: "MIT",
        address: LONGMEMEVAL,
        files: &[unseen("longmemeval_oracle.json")],
        links: None,
        content: None,
    },
    Release {
        key: "meme",
        benchmark: Benchmark::Meme,
        about: "MEME with 32k tokens of distractors, 100 episodes",
        page: MEME_PAGE,
        licence: "CC BY 4.0",
        address: MEME,
        files: &[unseen("meme_filler32k.json")],
        links: None,
        content: None,
    },
    Release {
        key: "memoryagentbench",
        benchmark: Benchmark::Memoryagentbench,
        about: "MemoryAgentBench, four splits (Parquet)",
        page: "https://huggingface.co/datasets/ai-hyz/MemoryAgentBench",
        licence: "MIT",
        address: "https://huggingface.co/datasets/ai-hyz/MemoryAgentBench/resolve/main/",
        files: &[
            unseen("data/Accurate_Retrieval-00000-of-00001.parquet"),
            unseen("data/Test_Time_Learning-00000-of-00001.parquet"),
            unseen("data/Long_Range_Understanding-00000-of-00001.parquet"),
            unseen("data/Conflict_Resolution-00000-of-00001.parquet"),
            unseen("entity2id.json"),
        ],
        links: None,
        content: None,
    },
    Release {
        key: "personamem",
        benchmark: Benchmark::Personamem,
        about: "PersonaMem-v2, text benchmark over 32k histories",
        page: "https://huggingface.co/datasets/bowen-upenn/PersonaMem-v2",
        licence: "CC BY 4.0",
        address: "https://huggingface.co/datasets/bowen-upenn/PersonaMem-v2/resolve/main/",
        files: &[unseen("benchmark/text/benchmark.csv")],
        links: Some("chat_history_32k_link"),
        content: None,
    },
    Release {
        key: "beam-100k",
        benchmark: Benchmark::Beam,
        about: "BEAM, 20 chats of 100K tokens",
        page: BEAM_PAGE,
        licence: NO_LICENCE,
        address: BEAM,
        files: &[
            File {
                path: "100K/1/chat.json",
                sha256: Some("ea71efd5dcc13f7366d3737b45d532eadb3d1497f3d6f23d1fa1c4004d5ffdf2"),
            },
            File {
                path: "100K/1/probing_questions/probing_questions.json",
                sha256: Some("047398ff1497674b11585e7b4829c3d64d2d5e63f7f3572c826b73ca1faaf898"),
            },
            unseen("100K/{2..20}/chat.json"),
            unseen("100K/{2..20}/probing_questions/probing_questions.json"),
        ],
        links: None,
        content: None,
    },
    Release {
        key: "beam-1m",
        benchmark: Benchmark::Beam,
        about: "BEAM, 35 chats of 1M tokens",
        page: BEAM_PAGE,
        licence: NO_LICENCE,
        address: BEAM,
        files: &[
            unseen("1M/{1..2}/chat.json"),
            unseen("1M/{1..2}/probing_questions/probing_questions.json"),
            File {
                path: "1M/3/chat.json",
                sha256: Some("3e2f10e6d76a514ced7ea7d73be589f20f6a77e0cc973fee5139e3705ae5d572"),
            },
            File {
                path: "1M/3/probing_questions/probing_questions.json",
                sha256: Some("52b2eedd5c099e92b8125d71b480396ebfca61cb84768622196e2f7c4d930c33"),
            },
            unseen("1M/{4..35}/chat.json"),
            unseen("1M/{4..35}/probing_questions/probing_questions.json"),
        ],
        links: None,
        content: None,
    },
    Release {
        key: "long-mt-bench-plus",
        benchmark: Benchmark::LongMtBenchPlus,
        about: "Long-MT-Bench+, 11 conversations (Parquet)",
        page: "https://huggingface.co/datasets/panzs19/Long-MT-Bench-Plus",
        licence: "not known to the project: see the page",
        address: "https://huggingface.co/datasets/panzs19/Long-MT-Bench-Plus/resolve/main/",
        files: &[unseen("data/test-00000-of-00001.parquet")],
        links: None,
        content: None,
    },
];

/// The release of that key.
pub fn release(key: &str) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.key == key)
}

impl File {
    /// The paths that the file's path stands for, in order.
    pub fn paths(&self) -> Vec<String> {
        let numbered = self.path.split_once('{').and_then(|(before, rest)| {
            let (numbers, after) = rest.split_once('}')?;
            let (first, last) = numbers.split_once("..")?;
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            Some(
                (first..=last)
                    .map(|n| format!("{before}{n}{after}"))
                    .collect(),
            )
        });
        numbered.unwrap_or_else(|| vec![self.path.to_owned()])
    }
}

/// A count that is not the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// What is counted (`questions of type multi-hop`).
    pub what: String,
    /// As published.
    pub published: u64,
    /// As read.
    pub found: u64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            published,
            found,
        } = self;
        write!(f, "{what}: {found}, published {published}")
    }
}

/// LoCoMo's questions by type: categories 4, 1, 2, 3 (1,540 together) and 5.
const LOCOMO: [(&str, u64); 5] = [
    ("single-hop", 841),
    ("multi-hop", 282),
    ("temporal", 321),
    ("open-domain", 96),
    ("adversarial", 446),
];

/// LongMemEval's questions by type, and those that are not to be abstained from (500 and 470).
const LONGMEMEVAL_TYPES: [(&str, u64, u64); 6] = [
    ("single-session-user", 70, 64),
    ("single-session-assistant", 56, 56),
    ("single-session-preference", 30, 30),
    ("multi-session", 133, 121),
    ("knowledge-update", 78, 72),
    ("temporal-reasoning", 133, 127),
];

/// The sources of MemoryAgentBench that the Raw-RAG paper evaluates, by what their names begin
/// with, and the questions of each: fourteen, whatever the size of their contexts.
pub const MEMORYAGENTBENCH_SOURCES: [(&str, u64); 14] = [
    ("longmemeval", 300),
    ("eventqa", 500),
    ("ruler_qa1", 100),
    ("ruler_qa2", 100),
    ("icl_banking77", 100),
    ("icl_clinic150", 100),
    ("icl_nlu", 100),
    ("icl_trec_coarse", 100),
    ("icl_trec_fine", 100),
    ("recsys_redial", 200),
    ("detective_qa", 71),
    ("infbench_sum", 100),
    ("factconsolidation_sh", 100),
    ("factconsolidation_mh", 100),
];

/// Every count of a report that is not the published one; none where nothing is published about
/// its benchmark.
///
/// The counts are those of the Raw-RAG paper (Section 4.1, Appendices D.1.1 to D.1.6) and of the
/// benchmarks' own papers. MemoryAgentBench's 2,071 questions are of fourteen sources in one size
/// each; where the release brings several sizes of a source, that is named instead of the sum, and
/// each size is held against the count of its source.
pub fn check(report: &Report) -> Vec<Deviation> {
    let mut check = Check(Vec::new());
    let totals = &report.totals;
    let of = |kind: &str| {
        totals
            .questions
            .iter()
            .find(|(k, _)| k.as_str() == kind)
            .map_or(0, |(_, n)| *n)
    };
    let abstained = |kind: &str| {
        totals
            .abstentions
            .iter()
            .find(|(k, _)| k.as_str() == kind)
            .map_or(0, |(_, n)| *n)
    };
    let questions: u64 = totals.questions.values().sum();
    match report.benchmark() {
        Benchmark::Locomo => {
            check.count("conversations", 10, totals.conversations);
            for (kind, published) in LOCOMO {
                check.count(&format!("questions of type {kind}"), published, of(kind));
            }
            check.count("questions", 1_986, questions);
        }
        Benchmark::Longmemeval => {
            for (kind, all, answerable) in LONGMEMEVAL_TYPES {
                check.count(&format!("questions of type {kind}"), all, of(kind));
                let what = format!("answerable questions of type {kind}");
                check.count(&what, answerable, of(kind) - abstained(kind));
            }
            check.count("questions", 500, questions);
            check.count("abstentions", 30, totals.abstentions.values().sum());
        }
        Benchmark::Meme => {
            let phase = |phase| totals.phases.get(&phase).copied().unwrap_or(0);
            check.count("episodes", 100, totals.conversations);
            check.count("questions before", 494, phase(Phase::Before));
            check.count("questions after", 694, phase(Phase::After));
        }
        Benchmark::Memoryagentbench => check.sources(&totals.sources, questions),
        Benchmark::Personamem => {
            check.count("questions", 5_000, questions);
            check.count("scenario types", 9, totals.questions.len() as u64);
        }
        Benchmark::Beam => {
            check.count("types of questions", 10, totals.questions.len() as u64);
            for (kind, found) in &totals.questions {
                let what = format!("questions of type {kind}");
                check.count(&what, 2 * totals.conversations, *found);
            }
        }
        Benchmark::LongMtBenchPlus => {
            check.count("conversations", 11, totals.conversations);
            check.count("questions", 288, questions);
        }
        _ => {}
    }
    check.0
}

struct Check(Vec<Deviation>);

impl Check {
    fn count(&mut self, what: &str, published: u64, found: u64) {
        if published != found {
            self.0.push(Deviation {
                what: what.to_owned(),
                published,
                found,
            });
        }
    }

    /// MemoryAgentBench's sources, each in one size.
    fn sources(&mut self, sources: &BTreeMap<String, u64>, questions: u64) {
        let mut one_each = true;
        for (family, published) in MEMORYAGENTBENCH_SOURCES {
            let of: Vec<(&String, &u64)> = sources
                .iter()
                .filter(|(s, _)| s.starts_with(family))
                .collect();
            one_each &= of.len() == 1;
            self.count(&format!("sizes of the source {family}"), 1, of.len() as u64);
            for (source, questions) in of {
                self.count(&format!("questions of {source}"), published, *questions);
            }
        }
        let known = |s: &str| {
            MEMORYAGENTBENCH_SOURCES
                .iter()
                .any(|(f, _)| s.starts_with(f))
        };
        let others = sources.keys().filter(|s| !known(s)).count() as u64;
        self.count("sources that the paper does not have", 0, others);
        if one_each && others == 0 {
            self.count("questions", 2_071, questions);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LOCOMO, LONGMEMEVAL_TYPES, MEMORYAGENTBENCH_SOURCES, RELEASES, release};

    #[test]
    fn sums_are_the_published_ones() {
        let locomo: u64 = LOCOMO[..4].iter().map(|(_, n)| n).sum();
        let all: u64 = LONGMEMEVAL_TYPES.iter().map(|(_, n, _)| n).sum();
        let answerable: u64 = LONGMEMEVAL_TYPES.iter().map(|(_, _, n)| n).sum();
        assert_eq!((locomo, all, answerable), (1_540, 500, 470));
        let sources: u64 = MEMORYAGENTBENCH_SOURCES.iter().map(|(_, n)| n).sum();
        assert_eq!(sources, 2_071);
    }

    #[test]
    fn keys_are_unique_and_files_have_addresses() {
        let keys: BTreeSet<&str> = RELEASES.iter().map(|release| release.key).collect();
        assert_eq!(keys.len(), RELEASES.len());
        for release in RELEASES {
            assert!(release.address.starts_with("https://") && release.address.ends_with('/'));
            for path in release.files.iter().flat_map(|file| file.paths()) {
                assert!(
                    !path.starts_with('/') && !path.contains(['{', '\\']),
                    "{path}"
                );
            }
        }
        let beam = release("beam-1m").unwrap();
        let chats: BTreeSet<String> = beam.files.iter().flat_map(|f| f.paths()).collect();
        assert_eq!(chats.len(), 2 * 35);
    }
}
