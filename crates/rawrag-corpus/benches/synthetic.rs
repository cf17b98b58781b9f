//! Generation speed: `cargo bench -p rawrag-corpus --bench synthetic`.

#![expect(clippy::unwrap_used, reason = "a bench stops where its input fails")]

use divan::Bencher;
use divan::counter::ItemsCount;
use rawrag_corpus::synthetic::{
    Recipe, check_episode, episodes, fact_pools, label_streams, quarter_of_characters,
};

fn main() {
    divan::main();
}

fn meme(episodes: u32, tokens: u32) -> Recipe {
    let text = format!("seed = 1\n[meme]\nepisodes = {episodes}\ndistractor_tokens = {tokens}");
    text.parse().unwrap()
}

/// Ten thousand episodes of five sessions.
#[divan::bench(sample_count = 3)]
fn ten_thousand_bare_episodes(bencher: Bencher<'_, '_>) {
    let recipe = meme(10_000, 0);
    bencher
        .counter(ItemsCount::new(10_000_u32))
        .bench(|| episodes(&recipe, &quarter_of_characters).unwrap().count());
}

/// As many episodes as MEME has, with as many tokens.
#[divan::bench(sample_count = 3)]
fn a_hundred_episodes_of_32k(bencher: Bencher<'_, '_>) {
    let recipe = meme(100, 32_000);
    bencher
        .counter(ItemsCount::new(100_u32))
        .bench(|| episodes(&recipe, &quarter_of_characters).unwrap().count());
}

#[divan::bench(sample_count = 3)]
fn checking_a_hundred_episodes_of_32k(bencher: Bencher<'_, '_>) {
    let recipe = meme(100, 32_000);
    let made: Vec<_> = episodes(&recipe, &quarter_of_characters).unwrap().collect();
    bencher
        .counter(ItemsCount::new(100_u32))
        .bench(|| made.iter().try_for_each(check_episode).unwrap());
}

#[divan::bench(sample_count = 3)]
fn pools_and_streams(bencher: Bencher<'_, '_>) {
    let text = "seed = 1\n[facts]\npools = 10\nfacts = 10000\nconflicts = 4000\nsingle_hop = 100\n\
                multi_hop = 100\n[labels]\nstreams = 10\nlabels = 100\ndemonstrations = 5000\n\
                tests = 200";
    let recipe: Recipe = text.parse().unwrap();
    bencher.bench(|| {
        fact_pools(&recipe)
            .unwrap()
            .chain(label_streams(&recipe).unwrap())
            .count()
    });
}
