//! Laws that hold for all data.

#![expect(clippy::unwrap_used, reason = "a test's own helpers fail the test")]

use proptest::prelude::*;
use rawrag_statistics::report::{Options, Report, report};
use rawrag_statistics::{
    Adjustment, CochranQ, Contributions, DifferenceDistribution, Interval, IntervalMethod, Missing,
    Outcomes, PValue, PairCounts, PairedMethod, Population, Replication, Row, Scheme, Score,
    Scores, adjust, noninferiority, paired_interval, resample, sign_flip,
};

const REPLICATION: Replication = Replication {
    replicates: 600,
    seed: 4,
};

fn options() -> Options {
    Options {
        alpha: 0.05,
        replication: REPLICATION,
        margin: Some(0.05),
        unit: "question".to_owned(),
        cluster: "conversation".to_owned(),
    }
}

/// Scores of units x systems, with a cluster and a stratum each.
type Unit = (Vec<u8>, usize, usize);

fn units(systems: usize) -> impl Strategy<Value = Vec<Unit>> {
    let unit = (
        prop::collection::vec(0u8..=1, systems),
        0usize..6,
        0usize..3,
    );
    prop::collection::vec(unit, 1..40)
}

/// Outcomes with the systems and units listed in the given orders.
fn outcomes(units: &[Unit], systems: &[usize], order: impl Iterator<Item = usize>) -> Outcomes {
    let names = ["ada", "bea", "cyd", "dot"];
    let labels: Vec<[String; 3]> = units
        .iter()
        .enumerate()
        .map(|(i, unit)| {
            [
                format!("q{i}"),
                format!("c{}", unit.1),
                format!("s{}", unit.2),
            ]
        })
        .collect();
    let rows: Vec<Row<'_>> = order
        .flat_map(|i| systems.iter().map(move |&s| (i, s)))
        .map(|(i, s)| Row {
            system: names[s],
            unit: &labels[i][0],
            score: Some(f64::from(units[i].0[s])),
            stratum: Some(&labels[i][2]),
            cluster: Some(&labels[i][1]),
        })
        .collect();
    Outcomes::collect(rows, None, Missing::Refuse).unwrap()
}

fn json(report: &Report) -> String {
    serde_json::to_string(report).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn permuting_units_changes_nothing(units in units(3)) {
        let forward = outcomes(&units, &[0, 1, 2], 0..units.len());
        let backward = outcomes(&units, &[0, 1, 2], (0..units.len()).rev());
        prop_assert_eq!(
            json(&report(&forward, &options()).unwrap()),
            json(&report(&backward, &options()).unwrap())
        );
    }

    /// The engine itself orders its members, so labels and positions do not matter to it either.
    #[test]
    fn relabelling_changes_no_replicate(units in units(2)) {
        let table = |order: &mut dyn Iterator<Item = usize>| {
            let mut contributions = Contributions::new(3);
            let mut labels = Vec::new();
            for i in order {
                let scores = &units[i].0;
                contributions.push(&[f64::from(scores[0]), f64::from(scores[1]), 1.0]).unwrap();
                labels.push(units[i].1);
            }
            (contributions, labels)
        };
        let replicates = |contributions: &Contributions, labels: &[usize]| {
            let population = Population::new(contributions, Scheme::ClustersThenUnits(labels)).unwrap();
            resample(&population, REPLICATION, 1, |totals, out| out[0] = Some(totals[0] - totals[1]))
        };
        let (forward, labels) = table(&mut (0..units.len()));
        let (backward, mirrored) = table(&mut (0..units.len()).rev());
        let renamed: Vec<usize> = mirrored.iter().map(|label| 100 - label).collect();
        prop_assert_eq!(replicates(&forward, &labels), replicates(&backward, &renamed));
    }

    #[test]
    fn swapping_systems_mirrors_everything(units in units(2)) {
        let there = report(&outcomes(&units, &[0, 1], 0..units.len()), &options()).unwrap();
        let back = report(&outcomes(&units, &[1, 0], 0..units.len()), &options()).unwrap();
        let (x, y) = (&there.pairs[0], &back.pairs[0]);
        prop_assert_eq!((&x.a, &x.b), (&y.b, &y.a));
        prop_assert_eq!((x.a_only, x.b_only), (y.b_only, y.a_only));
        prop_assert!((x.difference + y.difference).abs() < f64::EPSILON);
        for (x, y) in [
            (x.interval, y.interval),
            (x.interval_exact, y.interval_exact),
            (x.interval_cluster, y.interval_cluster),
            (x.interval_studentised, y.interval_studentised),
            (x.interval_two_stage, y.interval_two_stage),
        ] {
            prop_assert_eq!(x, y.map(Interval::negated));
        }
        prop_assert_eq!(
            (x.p_exact, x.p_mid, x.p_holm, x.p_sign, x.p_signflip, x.p_sign_cluster),
            (y.p_exact, y.p_mid, y.p_holm, y.p_sign, y.p_signflip, y.p_sign_cluster)
        );
        prop_assert_eq!(&there.cochran_q, &back.cochran_q);
        prop_assert_eq!(&there.systems[0], &back.systems[1]);
    }

    /// Under every scheme a copy has the original's interval and differs from it by exactly 0.
    #[test]
    fn a_copy_of_a_system_is_level_with_it(mut units in units(2)) {
        for unit in &mut units {
            unit.0 = vec![unit.0[0], unit.0[0]];
        }
        let report = report(&outcomes(&units, &[0, 1], 0..units.len()), &options()).unwrap();
        let pair = &report.pairs[0];
        let zero = Ok(Interval { lower: 0.0, upper: 0.0 });
        prop_assert_eq!(pair.interval, zero);
        prop_assert_eq!(pair.interval_exact, zero);
        prop_assert_eq!(pair.interval_cluster, zero);
        prop_assert_eq!(pair.interval_two_stage, zero);
        for p in [pair.p_exact, pair.p_mid, pair.p_sign_exact, pair.p_sign_cluster] {
            prop_assert_eq!(p, Ok(PValue::ONE));
        }
        prop_assert_eq!((pair.p_sign, pair.p_signflip), (PValue::ONE, PValue::ONE));
        prop_assert_eq!(report.systems[0].interval, report.systems[1].interval);
        prop_assert_eq!(report.systems[0].interval_cluster, report.systems[1].interval_cluster);
        prop_assert!(report.cochran_q.is_err());
    }

    #[test]
    fn the_thread_count_changes_nothing(units in units(3)) {
        let outcomes = outcomes(&units, &[0, 1, 2], 0..units.len());
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            json(&pool.install(|| report(&outcomes, &options()).unwrap()))
        };
        let one = with(1);
        prop_assert_eq!(&one, &with(2));
        prop_assert_eq!(&one, &with(16));
    }

    #[test]
    fn adjusted_p_values_are_monotone_clamped_and_without_order(
        raw in prop::collection::vec(1e-12f64..=1.0, 1..20), turn in 0usize..20,
    ) {
        let raw: Vec<PValue> = raw.into_iter().map(|p| PValue::new(p).unwrap()).collect();
        let mut turned = raw.clone();
        turned.rotate_left(turn % raw.len());
        for adjustment in [
            Adjustment::Bonferroni, Adjustment::Holm, Adjustment::Hochberg,
            Adjustment::BenjaminiHochberg,
        ] {
            let mut adjusted = adjust(&raw, adjustment);
            for (i, (p, q)) in raw.iter().zip(&adjusted).enumerate() {
                prop_assert!(p.ln() <= q.ln() && q.ln() <= 0.0);
                for (other, its) in raw.iter().zip(&adjusted).skip(i) {
                    prop_assert!((p.ln() - other.ln()) * (q.ln() - its.ln()) >= 0.0);
                }
            }
            adjusted.rotate_left(turn % raw.len());
            prop_assert_eq!(adjusted, adjust(&turned, adjustment));
        }
    }

    /// Bounds, interval and p of a non-inferiority test say the same.
    #[test]
    fn noninferiority_agrees_with_itself(
        both in 0u64..60, a_only in 1u64..20, b_only in 1u64..20, neither in 1u64..60,
        margin in 0.01f64..0.3,
    ) {
        let counts = PairCounts { both, a_only, b_only, neither };
        for method in [PairedMethod::Wald, PairedMethod::Newcombe, PairedMethod::Tango] {
            let test = noninferiority(&counts, margin, 0.05, method).unwrap();
            prop_assert!(test.lower_bound <= test.difference);
            prop_assert!(test.interval.lower <= test.lower_bound);
            if (test.p.value() - 0.05).abs() > 1e-6 {
                prop_assert_eq!(test.non_inferior, test.p.value() < 0.05, "{:?}", method);
            }
            let ninety = paired_interval(&counts, 0.9, method).unwrap();
            prop_assert!((ninety.lower - test.lower_bound).abs() < 1e-9);
        }
    }

    /// Nothing in range of a caller's counts panics or gives NaN.
    #[test]
    fn edge_tables_have_defined_tests(
        both in 0u64..3, a_only in 0u64..4, b_only in 0u64..4, neither in 0u64..3,
    ) {
        let counts = PairCounts { both, a_only, b_only, neither };
        prop_assert!(counts.exact().value() > 0.0 && counts.mid_p().value() > 0.0);
        prop_assert!(counts.mid_p() <= counts.exact());
        for method in [PairedMethod::Wald, PairedMethod::Newcombe, PairedMethod::Tango] {
            if let Ok(interval) = paired_interval(&counts, 0.95, method) {
                prop_assert!(interval.lower <= interval.upper, "{:?}: {:?}", method, interval);
            }
        }
        if let Ok(distribution) = DifferenceDistribution::new(&[counts]) {
            prop_assert!(distribution.interval(0.95).contains(distribution.difference()));
        }
    }
}

/// The closed form is the limit of the sampled bootstrap: the largest gap between the two
/// distribution functions stays within the Dvoretzky-Kiefer-Wolfowitz band (error below 1e-6), and
/// falls with the root of the number of replicates.
#[test]
fn sampled_differences_converge_to_the_closed_form() {
    let strata = [
        PairCounts {
            both: 50,
            a_only: 22,
            b_only: 9,
            neither: 19,
        },
        PairCounts {
            both: 8,
            a_only: 0,
            b_only: 3,
            neither: 1,
        },
        PairCounts {
            both: 200,
            a_only: 31,
            b_only: 40,
            neither: 77,
        },
    ];
    let exact = DifferenceDistribution::new(&strata).unwrap();
    let mut contributions = Contributions::new(2);
    let mut labels = Vec::new();
    for (label, counts) in strata.iter().enumerate() {
        for (row, count) in [
            ([1.0, 1.0], counts.both),
            ([1.0, 0.0], counts.a_only),
            ([0.0, 1.0], counts.b_only),
            ([0.0, 0.0], counts.neither),
        ] {
            for _ in 0..count {
                contributions.push(&row).unwrap();
                labels.push(label);
            }
        }
    }
    let population = Population::new(&contributions, Scheme::UnitsWithinStrata(&labels)).unwrap();
    let units = labels.len() as i64;
    for replicates in [2_000, 32_000, 512_000] {
        let replication = Replication {
            replicates,
            seed: 8,
        };
        let samples = resample(&population, replication, 1, |t, out| {
            out[0] = Some(t[0] - t[1])
        });
        let mut sorted = samples[0].values().to_vec();
        sorted.sort_by(f64::total_cmp);
        let gap = (-units..=units)
            .map(|count| {
                let below = sorted.partition_point(|&v| v <= count as f64);
                (below as f64 / replicates as f64 - exact.cumulative(count)).abs()
            })
            .fold(0.0, f64::max);
        let band = (f64::ln(2.0 / 1e-6) / (2.0 * replicates as f64)).sqrt();
        assert!(gap < band, "{replicates}: {gap} against {band}");
    }
}

/// A weighted score and its equivalent single ratio agree, gated tasks included, and an undefined
/// denominator is a value with a reason in estimate and replicates alike.
#[test]
fn scores_nest_and_say_when_they_are_undefined() {
    let mut contributions = Contributions::new(4);
    for row in [
        [1.0, 1.0, 0.0, 0.0],
        [0.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 0.0, 0.0],
    ] {
        contributions.push(&row).unwrap();
    }
    let population = Population::new(&contributions, Scheme::Units).unwrap();
    let nested = Score::average(&[Score::ratio(0, 1), Score::macro_average(&[(2, 3), (0, 1)])]);
    let scores = Scores::all_pairs(vec![nested, Score::ratio(0, 1)]);
    let report = scores
        .estimate(&population, REPLICATION, IntervalMethod::Percentile, 0.95)
        .unwrap();
    let expected = 0.75 * (2.0 / 3.0) + 0.25;
    assert!((report.scores[0].value.unwrap() - expected).abs() < 1e-12);
    // The task of columns 2 and 3 is missing from (2/3)^3 of the resamples.
    let share = report.scores[0].undefined_replicates as f64 / 600.0;
    assert!((share - 8.0 / 27.0).abs() < 0.1, "{share}");
    assert_eq!(report.scores[1].undefined_replicates, 0);
}

#[test]
fn sign_flip_and_permuted_q_agree_for_two_systems() {
    let a: Vec<f64> = (0..18).map(|i| f64::from(u8::from(i < 13))).collect();
    let b: Vec<f64> = (0..18).map(|i| f64::from(u8::from(i >= 10))).collect();
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    let exact = sign_flip(&differences, REPLICATION).p.value();
    let replication = Replication {
        replicates: 40_000,
        seed: 3,
    };
    let permuted = CochranQ::new(&[a, b])
        .unwrap()
        .permutation(replication)
        .value();
    assert!((permuted - exact).abs() < 5.0 * (exact * (1.0 - exact) / 40_000.0).sqrt());
}
