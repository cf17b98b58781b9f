//! Which methods keep their promise: coverage of intervals and size of tests, by simulation.

use rayon::prelude::*;
use serde::Serialize;

use crate::power::{pooled, signed_totals};
use crate::resampling::Draws;
use crate::{
    Contributions, Defined, DifferenceDistribution, Interval, PValue, PairCounts, PairedDesign,
    PairedMethod, Population, Replication, ResamplingError, Scheme, acceleration, noninferiority,
    paired_interval, resample, sign_flip, studentised_difference,
};

/// Confidence of every interval; tests are at the complementary level.
pub const CONFIDENCE: f64 = 0.95;

/// Margin of the non-inferiority tests.
pub const MARGIN: f64 = 0.05;

/// Samples a design that the committed page is made of.
pub const SAMPLES: usize = 1_000;

/// Replicates a cluster bootstrap that the committed page is made of.
pub const INNER: usize = 500;

/// A design with a name for the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedDesign {
    /// What it imitates.
    pub name: String,
    /// The population.
    #[serde(flatten)]
    pub design: PairedDesign,
}

/// What one method did over all samples of one design.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Behaviour {
    /// The design.
    #[serde(flatten)]
    pub design: NamedDesign,
    /// The method.
    pub method: &'static str,
    /// What the method takes as independent: `question` or `cluster`.
    pub unit: &'static str,
    /// Share of intervals that contain the true difference; absent for a mere test.
    pub coverage: Option<f64>,
    /// Mean width of the intervals.
    pub width: Option<f64>,
    /// Share of samples in which the test rejects at 0.05: its size where the null hypothesis is
    /// true, its power elsewhere. An undefined test does not reject.
    pub rejections: Option<f64>,
    /// Number of samples.
    pub samples: usize,
}

/// The designs of the committed page: the papers' own, and sweeps of n and of the cluster count.
pub fn designs() -> Vec<NamedDesign> {
    let named = |name: &str, clusters, units_per_cluster, correlation, difference, between_sd| {
        let design = PairedDesign {
            clusters,
            units_per_cluster,
            rate: 0.7,
            correlation,
            difference,
            between_sd,
        };
        NamedDesign {
            name: name.to_owned(),
            design,
        }
    };
    let mut designs = Vec::new();
    for (name, clusters, size) in [
        ("LoCoMo", 10, 154),
        ("MemoryAgentBench", 14, 148),
        ("MEME", 100, 12),
        ("LongMemEval", 500, 1),
    ] {
        for correlation in [0.3, 0.7] {
            for difference in [0.0, 0.03, -MARGIN] {
                designs.push(named(name, clusters, size, correlation, difference, 0.0));
                if size > 1 {
                    designs.push(named(name, clusters, size, correlation, difference, 0.05));
                }
            }
        }
    }
    for n in [20, 50, 200] {
        for difference in [0.0, -MARGIN] {
            designs.push(named("independent questions", n, 1, 0.5, difference, 0.0));
        }
    }
    for clusters in [5, 8, 20, 30, 50] {
        designs.push(named("cluster count", clusters, 40, 0.5, 0.0, 0.05));
    }
    for between_sd in [0.02, 0.1] {
        designs.push(named("between-cluster sd", 10, 154, 0.5, 0.0, between_sd));
    }
    designs
}

/// Draws `replication.replicates` samples of each design and applies every method to each; cluster
/// methods resample `inner` times.
///
/// Errs only if a design has no units.
pub fn run(
    designs: &[NamedDesign],
    replication: Replication,
    inner: usize,
) -> Result<Vec<Behaviour>, ResamplingError> {
    let mut behaviours = Vec::new();
    for (number, design) in designs.iter().enumerate() {
        let samples: Vec<Vec<Applied>> = (0..replication.replicates)
            .into_par_iter()
            .map(|sample| {
                let stream = ((number as u64) << 32) | sample as u64;
                let mut draws = Draws::new(replication.seed, stream);
                let clusters = design.design.draw(&mut draws);
                let seed = replication.seed ^ (stream + 1);
                apply_all(
                    &clusters,
                    Replication {
                        replicates: inner,
                        seed,
                    },
                )
            })
            .collect::<Result<_, _>>()?;
        behaviours.extend(summarise(design, &samples));
    }
    Ok(behaviours)
}

/// The behaviours as CSV, a header and one line each; empty fields where a method has none.
pub fn csv(behaviours: &[Behaviour]) -> String {
    let mut csv = String::from(
        "design,clusters,units_per_cluster,rate,correlation,difference,between_sd,method,unit,\
         coverage,width,rejections,samples\n",
    );
    let shown = |share: Option<f64>| share.map_or(String::new(), |share| format!("{share:.4}"));
    for behaviour in behaviours {
        let NamedDesign { name, design } = &behaviour.design;
        csv.push_str(&format!(
            "{name},{},{},{},{},{},{},\"{}\",{},{},{},{},{}\n",
            design.clusters,
            design.units_per_cluster,
            design.rate,
            design.correlation,
            design.difference,
            design.between_sd,
            behaviour.method,
            behaviour.unit,
            shown(behaviour.coverage),
            shown(behaviour.width),
            shown(behaviour.rejections),
            behaviour.samples,
        ));
    }
    csv
}

/// The behaviours as Markdown tables, in percent: size, coverage, power, non-inferiority at the
/// margin, and the sweeps. The papers' designs are shown at a correlation of 0.7; the CSV has all.
pub fn tables(behaviours: &[Behaviour]) -> String {
    let paper = |b: &Behaviour| (b.design.design.correlation - 0.7).abs() < 1e-9;
    let at =
        |b: &Behaviour, difference: f64| (b.design.design.difference - difference).abs() < 1e-9;
    let named = |b: &Behaviour, name: &str| b.design.name == name;
    let margin_test = |b: &Behaviour| b.method.starts_with("non-inferiority");
    let rejections = |b: &Behaviour| b.rejections;
    let coverage = |b: &Behaviour| b.coverage;
    let table = |title: &str, keep: &dyn Fn(&Behaviour) -> bool, value: &Value| {
        markdown(title, behaviours.iter().filter(|b| keep(b)), value)
    };
    [
        table(
            "Size: rejections at 5 % when there is no difference",
            &|b| paper(b) && at(b, 0.0) && !margin_test(b),
            &rejections,
        ),
        table(
            "Coverage of 95 % intervals when there is no difference",
            &|b| paper(b) && at(b, 0.0),
            &coverage,
        ),
        table(
            "Power: rejections at 5 % when the difference is 3 points",
            &|b| paper(b) && at(b, 0.03) && !margin_test(b),
            &rejections,
        ),
        table(
            "Size of non-inferiority tests: rejections at 5 % when the difference is the margin",
            &|b| at(b, -MARGIN) && margin_test(b),
            &rejections,
        ),
        table(
            "Coverage by number of clusters",
            &|b| named(b, "cluster count"),
            &coverage,
        ),
        table(
            "Size by number of clusters",
            &|b| named(b, "cluster count") && !margin_test(b),
            &rejections,
        ),
        table(
            "Size by between-cluster standard deviation",
            &|b| named(b, "between-cluster sd") && !margin_test(b),
            &rejections,
        ),
        table(
            "Coverage by number of independent questions",
            &|b| named(b, "independent questions") && at(b, 0.0),
            &coverage,
        ),
        table(
            "Size by number of independent questions",
            &|b| named(b, "independent questions") && at(b, 0.0) && !margin_test(b),
            &rejections,
        ),
    ]
    .join("\n")
}

type Value = dyn Fn(&Behaviour) -> Option<f64>;

/// A row a method that has the value anywhere, a column a design.
fn markdown<'a>(
    title: &str,
    behaviours: impl Iterator<Item = &'a Behaviour>,
    value: &Value,
) -> String {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for behaviour in behaviours {
        let design = &behaviour.design.design;
        let column = format!(
            "{} {} x {}, r {}, sd {}",
            behaviour.design.name,
            design.clusters,
            design.units_per_cluster,
            design.correlation,
            design.between_sd
        );
        let place = columns
            .iter()
            .position(|c| *c == column)
            .unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
        let Some(share) = value(behaviour) else {
            continue;
        };
        let name = format!("{}, by {}", behaviour.method, behaviour.unit);
        match rows.iter_mut().find(|row| row.0 == name) {
            Some(row) => row.1.push((place, share)),
            None => rows.push((name, vec![(place, share)])),
        }
    }
    let mut text = format!("## {title}\n\n| method | {} |\n|---|", columns.join(" | "));
    text.push_str(&"---:|".repeat(columns.len()));
    text.push('\n');
    for (name, cells) in rows {
        text.push_str(&format!("| {name} |"));
        for column in 0..columns.len() {
            match cells.iter().find(|(place, _)| *place == column) {
                Some((_, share)) => text.push_str(&format!(" {:.1} |", 100.0 * share)),
                None => text.push_str(" - |"),
            }
        }
        text.push('\n');
    }
    text
}

/// One method's answer to one sample.
struct Applied {
    method: &'static str,
    unit: &'static str,
    interval: Option<Interval>,
    rejects: Option<bool>,
}

fn summarise(design: &NamedDesign, samples: &[Vec<Applied>]) -> Vec<Behaviour> {
    let methods = samples.first().map_or(0, Vec::len);
    let share = |hits: usize, of: usize| (of > 0).then(|| hits as f64 / of as f64);
    (0..methods)
        .map(|m| {
            let applied = || samples.iter().map(|sample| &sample[m]);
            let intervals: Vec<Interval> = applied().filter_map(|a| a.interval).collect();
            let covered = intervals
                .iter()
                .filter(|i| i.contains(design.design.difference))
                .count();
            let width: f64 = intervals.iter().map(|i| i.upper - i.lower).sum();
            let tested = applied().filter(|a| a.rejects.is_some()).count();
            let rejected = applied().filter(|a| a.rejects == Some(true)).count();
            Behaviour {
                design: design.clone(),
                method: samples[0][m].method,
                unit: samples[0][m].unit,
                coverage: share(covered, intervals.len()),
                width: (!intervals.is_empty()).then(|| width / intervals.len() as f64),
                rejections: share(rejected, tested),
                samples: samples.len(),
            }
        })
        .collect()
}

fn apply_all(
    clusters: &[PairCounts],
    replication: Replication,
) -> Result<Vec<Applied>, ResamplingError> {
    let mut applied = by_question(&pooled(clusters));
    applied.extend(by_cluster(clusters, replication)?);
    Ok(applied)
}

fn by_question(counts: &PairCounts) -> Vec<Applied> {
    let alpha = 1.0 - CONFIDENCE;
    let rejects = |p: PValue| p.value() <= alpha;
    let applied = |method, interval, rejects| Applied {
        method,
        unit: "question",
        interval,
        rejects,
    };
    let test = |method, p: Defined<PValue>| applied(method, None, Some(p.is_ok_and(rejects)));
    let bootstrap = DifferenceDistribution::new(&[*counts]).map(|d| d.summary(CONFIDENCE));
    let mut all = vec![
        test("McNemar exact", Ok(counts.exact())),
        test("McNemar mid-p", Ok(counts.mid_p())),
        test("McNemar chi-squared", counts.chi_squared().map(|c| c.p)),
        test(
            "McNemar chi-squared, corrected",
            counts.chi_squared_corrected().map(|c| c.p),
        ),
        applied(
            "bootstrap percentile and sign test",
            bootstrap.ok().map(|b| b.interval),
            Some(bootstrap.is_ok_and(|b| rejects(b.p))),
        ),
    ];
    for (interval, test, method) in [
        ("Wald interval", "non-inferiority, Wald", PairedMethod::Wald),
        (
            "Newcombe interval",
            "non-inferiority, Newcombe",
            PairedMethod::Newcombe,
        ),
        (
            "Tango interval",
            "non-inferiority, Tango",
            PairedMethod::Tango,
        ),
    ] {
        let shown = noninferiority(counts, MARGIN, alpha, method).is_ok_and(|t| t.non_inferior);
        all.push(applied(
            interval,
            paired_interval(counts, CONFIDENCE, method).ok(),
            None,
        ));
        all.push(applied(test, None, Some(shown)));
    }
    all
}

fn by_cluster(
    clusters: &[PairCounts],
    replication: Replication,
) -> Result<Vec<Applied>, ResamplingError> {
    let applied = |method, interval, rejects| Applied {
        method,
        unit: "cluster",
        interval,
        rejects,
    };
    let alpha = 1.0 - CONFIDENCE;
    let mut all = Vec::new();

    // Whole clusters: a member is a cluster, with its totals.
    let mut totals = Contributions::new(3);
    for counts in clusters {
        totals.push(&[
            counts.a_only as f64,
            counts.b_only as f64,
            counts.units() as f64,
        ])?;
    }
    let population = Population::new(&totals, Scheme::Units)?;
    let difference = |totals: &[f64]| (totals[0] - totals[1]) / totals[2];
    let estimate = difference(population.totals());
    let sampled = |population: &Population| {
        resample(population, replication, 1, |totals, out| {
            out[0] = Some(difference(totals))
        })
        .swap_remove(0)
    };
    let left_out: Vec<Vec<f64>> = population
        .leave_one_out()
        .iter()
        .map(|stratum| stratum.iter().map(|totals| difference(totals)).collect())
        .collect();
    let sample = sampled(&population);
    for (name, interval) in [
        ("bootstrap percentile", sample.percentile(CONFIDENCE)),
        ("bootstrap basic", sample.basic(estimate, CONFIDENCE)),
        (
            "bootstrap BCa",
            sample.bca(estimate, acceleration(&left_out), CONFIDENCE),
        ),
    ] {
        all.push(applied(
            name,
            interval.ok(),
            interval.ok().map(|i| !i.contains(0.0)),
        ));
    }
    let (differences, labels) = unit_differences(clusters);
    let studentised =
        studentised_difference(&differences, Some(&labels), replication, CONFIDENCE)?.ok();
    all.push(applied(
        "bootstrap studentised",
        studentised,
        studentised.map(|i| !i.contains(0.0)),
    ));

    if differences.len() > clusters.len() {
        let mut units = Contributions::new(3);
        for difference in &differences {
            units.push(&[difference.max(0.0), (-difference).max(0.0), 1.0])?;
        }
        let population = Population::new(&units, Scheme::ClustersThenUnits(&labels))?;
        let interval = sampled(&population).percentile(CONFIDENCE).ok();
        all.push(applied(
            "two-stage bootstrap percentile",
            interval,
            interval.map(|i| !i.contains(0.0)),
        ));
    }
    let flip = sign_flip(&signed_totals(clusters), replication);
    all.push(applied("sign-flip", None, Some(flip.p.value() <= alpha)));
    Ok(all)
}

/// The difference and cluster of each unit.
fn unit_differences(clusters: &[PairCounts]) -> (Vec<f64>, Vec<usize>) {
    let mut differences = Vec::new();
    let mut labels = Vec::new();
    for (label, counts) in clusters.iter().enumerate() {
        let concordant = counts.both + counts.neither;
        for (value, count) in [
            (1.0, counts.a_only),
            (-1.0, counts.b_only),
            (0.0, concordant),
        ] {
            differences.extend(std::iter::repeat_n(value, count as usize));
        }
        labels.resize(differences.len(), label);
    }
    (differences, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What users have been bitten by: with few clusters that differ, methods by question reject a
    /// true null far too often, and the sign-flip over clusters does not.
    #[test]
    fn question_tests_are_too_eager_when_conversations_differ() {
        let design = NamedDesign {
            name: "ten conversations".to_owned(),
            design: PairedDesign {
                clusters: 10,
                units_per_cluster: 154,
                rate: 0.7,
                correlation: 0.7,
                difference: 0.0,
                between_sd: 0.05,
            },
        };
        let replication = Replication {
            replicates: 300,
            seed: 1,
        };
        let behaviours = run(&[design], replication, 100).unwrap();
        let size = |method: &str| {
            behaviours
                .iter()
                .find(|b| b.method == method)
                .and_then(|b| b.rejections)
                .unwrap()
        };
        assert!(size("bootstrap percentile and sign test") > 0.15);
        assert!(size("McNemar exact") > 0.15);
        // Three standard errors above five percent.
        assert!(size("sign-flip") < 0.05 + 3.0 * (0.05f64 * 0.95 / 300.0).sqrt());
    }
}
