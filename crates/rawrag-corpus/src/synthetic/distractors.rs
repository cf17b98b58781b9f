//! Sessions that hold nothing of an episode: talk of other people's affairs, in which the
//! episode's own labels turn up with values that are not its.

use super::domains::{Domain, Spec, Values};
use super::draws::{Draws, Words};

/// A session's messages, speaker and text.
pub(super) fn session(
    domain: &Domain,
    speaker: &str,
    words: &mut Words,
    draws: &mut Draws,
) -> Vec<(String, String)> {
    let exchanges = 3 + draws.below(5);
    let mut messages = Vec::with_capacity(2 * exchanges);
    for _ in 0..exchanges {
        let text = match draws.below(4) {
            0 => others(domain, words, draws),
            _ => idle(draws),
        };
        messages.push((speaker.to_owned(), text));
        messages.push((ASSISTANT.to_owned(), advice(draws)));
    }
    messages
}

/// The other speaker of every session.
pub(super) const ASSISTANT: &str = "Assistant";

/// Something about somebody else's affairs.
fn others(domain: &Domain, words: &mut Words, draws: &mut Draws) -> String {
    let (label, values) = any_label(domain, draws);
    let value = values.make(words, draws);
    let whose = draws.pick(&WHOSE);
    match draws.below(5) {
        0 => format!(
            "{whose}'s {label} is called {value}, or so I was told. {}",
            idle(draws)
        ),
        1 => format!("I met someone whose {label} is {value}. {}", idle(draws)),
        2 => format!(
            "{whose} went on about {value}, a {label} of some renown. {}",
            idle(draws)
        ),
        3 => {
            format!("In the paper there was a piece on {value}, the oldest {label} in the county.")
        }
        _ => format!("{whose} asked what I make of {value} for a {label}, and I had no view."),
    }
}

fn any_label(domain: &Domain, draws: &mut Draws) -> Spec {
    let root = draws.pick(&domain.roots);
    match draws.below(6) {
        0 => root.root,
        1 => *draws.pick(&root.leaves),
        2 => *draws.pick(&root.below),
        3 => root.middle,
        4 => *draws.pick(&domain.loose),
        _ => (draws.pick(&domain.topics).1[draws.below(3)].0, Values::Ware),
    }
}

const WHOSE: [&str; 10] = [
    "My cousin",
    "The man downstairs",
    "An old schoolmate",
    "My aunt in the north",
    "The librarian",
    "A colleague of my sister",
    "The postman",
    "Someone at the station",
    "The neighbour with the drum",
    "My uncle",
];

/// A remark about nothing in particular.
fn idle(draws: &mut Draws) -> String {
    let (thing, other) = (draws.pick(&THINGS), draws.pick(&THINGS));
    let (quality, doing) = (draws.pick(&QUALITIES), draws.pick(&DOINGS));
    match draws.below(14) {
        0 => format!("I spent the morning {doing} and ended up with a {quality} {thing}."),
        1 => format!("Is there a {quality} way of {doing} without ruining the {thing}?"),
        2 => format!("The {thing} looked {quality} in that light, quite unlike the {other}."),
        3 => format!("Could you suggest a {quality} book about {doing}?"),
        4 => format!("It rained all day, so I gave up {doing} and wrote a page about a {thing}."),
        5 => format!("What makes a {thing} more {quality} than a {other}, in your view?"),
        6 => format!("I dreamt of {doing} beside a {quality} {thing}, which was odd."),
        7 => format!("People here are fond of {doing}, but I prefer a {quality} {thing}."),
        8 => format!("Give me three ideas for {doing} with a {thing} and a {other}."),
        9 => format!("A {quality} {thing} costs more than I expected, and so does a {other}."),
        10 => format!("Tell me how {doing} came to be popular with people who own a {thing}."),
        11 => format!("Somebody left a {quality} {thing} on the bench beside the {other}."),
        12 => format!("I read an essay on {doing} that praised the {quality} {thing}."),
        _ => format!("My hands are sore from {doing}, and the {thing} is still {quality}."),
    }
}

/// A reply to a remark about nothing in particular.
fn advice(draws: &mut Draws) -> String {
    let (thing, other) = (draws.pick(&THINGS), draws.pick(&THINGS));
    let (quality, doing) = (draws.pick(&QUALITIES), draws.pick(&DOINGS));
    match draws.below(10) {
        0 => format!(
            "A {quality} {thing} is a fine place to begin. Some people combine it with {doing}, \
             though that takes patience and a sturdy {other}."
        ),
        1 => format!(
            "Opinions differ. {} who enjoy {doing} tend to favour the {quality} kind, while \
             others would sooner have a {thing}.",
            draws.pick(&["Readers", "Hikers", "Painters", "Cooks", "Gardeners"])
        ),
        2 => format!("I would start small: a {thing}, an hour of {doing}, and no more than that."),
        3 => format!(
            "The history of {doing} is longer than one might think, and a {quality} {thing} \
             turns up in many of the older accounts."
        ),
        4 => format!(
            "Both the {thing} and the {other} have their merits. The {quality} one is \
             cheaper to keep."
        ),
        5 => format!("That sounds {quality}. May I ask what drew you to {doing}?"),
        6 => format!(
            "Three thoughts come to mind: try {doing} in the evening, borrow a {thing}, and keep \
             the {other} out of the sun."
        ),
        7 => format!(
            "There is a {quality} essay on exactly this, which compares a {thing} to a \
             {other} at some length."
        ),
        8 => format!("Many find {doing} calming. A {quality} {thing} nearby does no harm."),
        _ => format!(
            "It is hard to say without seeing the {thing}. A {quality} {other} might \
             serve just as well."
        ),
    }
}

const THINGS: [&str; 40] = [
    "teapot",
    "bicycle",
    "harbour view",
    "quilt",
    "chessboard",
    "violin",
    "hammock",
    "lighthouse",
    "sundial",
    "postcard",
    "rowing boat",
    "telescope",
    "waffle iron",
    "scarf",
    "barometer",
    "notebook",
    "market stall",
    "kite",
    "mosaic",
    "weathercock",
    "accordion",
    "bookshelf",
    "footbridge",
    "orchard",
    "typewriter",
    "globe",
    "tapestry",
    "picnic basket",
    "globe thistle",
    "puppet theatre",
    "canal barge",
    "jigsaw",
    "sketch",
    "windmill",
    "fountain pen",
    "meadow",
    "brass band",
    "snow shovel",
    "herb bed",
    "museum ticket",
];

const QUALITIES: [&str; 24] = [
    "crooked", "plain", "cheerful", "dusty", "handsome", "brittle", "narrow", "generous", "quiet",
    "speckled", "solid", "peculiar", "gentle", "faded", "sturdy", "modest", "lively", "smooth",
    "heavy", "bright", "hollow", "slender", "rustic", "pale",
];

const DOINGS: [&str; 24] = [
    "baking rye bread",
    "folding paper",
    "watching herons",
    "mending nets",
    "learning to juggle",
    "pressing flowers",
    "walking the dunes",
    "carving spoons",
    "sorting stamps",
    "painting fences",
    "singing rounds",
    "picking plums",
    "drawing maps",
    "polishing brass",
    "telling stories",
    "knitting socks",
    "raking leaves",
    "sailing paper boats",
    "reading aloud",
    "whistling",
    "pickling beans",
    "collecting shells",
    "skating",
    "planting bulbs",
];
