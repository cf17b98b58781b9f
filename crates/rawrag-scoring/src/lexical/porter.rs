/// The stem of a word by Porter's algorithm (1980) with the changes that nltk makes to it by
/// default (`PorterStemmer()` of nltk 3.9.1), which is what LoCoMo's program and ROUGE use.
pub fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    if let Some(&(_, stem)) = IRREGULAR.iter().find(|(form, _)| *form == word) {
        return stem.to_owned();
    }
    let mut letters: Vec<char> = word.chars().collect();
    if letters.len() <= 2 {
        return word;
    }
    plurals(&mut letters);
    past_and_participle(&mut letters);
    final_y(&mut letters);
    long_suffixes(&mut letters);
    change(&mut letters, &STEP_3, |stem| measure(stem) > 0);
    residual_suffixes(&mut letters);
    final_e(&mut letters);
    if ends(&letters, "ll") && measure(&letters[..letters.len() - 1]) > 1 {
        letters.pop();
    }
    letters.into_iter().collect()
}

const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

const STEP_2: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

const STEP_3: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

/// Step 1a.
fn plurals(word: &mut Vec<char>) {
    if ends(word, "ies") && word.len() == 4 {
        cut(word, 1);
    } else if ends(word, "sses") || ends(word, "ies") {
        cut(word, 2);
    } else if ends(word, "s") && !ends(word, "ss") {
        cut(word, 1);
    }
}

/// Step 1b.
fn past_and_participle(word: &mut Vec<char>) {
    if ends(word, "ied") {
        let letters = if word.len() == 4 { 1 } else { 2 };
        return cut(word, letters);
    }
    if let Some(stem) = before(word, "eed") {
        if measure(stem) > 0 {
            cut(word, 1);
        }
        return;
    }
    let suffix = ["ed", "ing"].into_iter().find(|suffix| {
        before(word, suffix).is_some_and(|stem| (0..stem.len()).any(|i| !is_consonant(stem, i)))
    });
    let Some(suffix) = suffix else { return };
    cut(word, suffix.len());
    if ["at", "bl", "iz"].iter().any(|end| ends(word, end)) {
        word.push('e');
    } else if ends_double_consonant(word) {
        if !matches!(word.last(), Some('l' | 's' | 'z')) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push('e');
    }
}

/// Step 1c: behind a consonant that is not the first letter.
fn final_y(word: &mut [char]) {
    let Some(stem) = before(word, "y") else {
        return;
    };
    if stem.len() > 1 && is_consonant(stem, stem.len() - 1) {
        let last = word.len() - 1;
        word[last] = 'i';
    }
}

/// Step 2.
fn long_suffixes(word: &mut Vec<char>) {
    if before(word, "alli").is_some_and(|stem| measure(stem) > 0) {
        cut(word, 2);
    }
    if !change(word, &STEP_2, |stem| measure(stem) > 0)
        && let Some(stem) = before(word, "ogi")
        && ends(stem, "l")
        && measure(stem) > 0
    {
        cut(word, 1);
    }
}

/// Step 4.
fn residual_suffixes(word: &mut Vec<char>) {
    let Some(suffix) = STEP_4.into_iter().find(|suffix| ends(word, suffix)) else {
        return;
    };
    if let Some(stem) = before(word, suffix)
        && measure(stem) > 1
        && (suffix != "ion" || matches!(stem.last(), Some('s' | 't')))
    {
        cut(word, suffix.len());
    }
}

/// Step 5a.
fn final_e(word: &mut Vec<char>) {
    let Some(stem) = before(word, "e") else {
        return;
    };
    let m = measure(stem);
    if m > 1 || (m == 1 && !ends_cvc(stem)) {
        word.pop();
    }
}

/// Puts the second of the first pair whose suffix the word has in its place, if `holds` of what
/// stands before it; whether a suffix was found.
fn change(word: &mut Vec<char>, pairs: &[(&str, &str)], holds: fn(&[char]) -> bool) -> bool {
    for (suffix, to) in pairs {
        if let Some(stem) = before(word, suffix) {
            if holds(stem) {
                cut(word, suffix.len());
                word.extend(to.chars());
            }
            return true;
        }
    }
    false
}

/// What stands before the suffix, if the word has it.
fn before<'a>(word: &'a [char], suffix: &str) -> Option<&'a [char]> {
    // Most words end otherwise, which the last letter tells.
    if word.last().copied() != suffix.chars().next_back() {
        return None;
    }
    let at = word.len().checked_sub(suffix.len())?;
    let (stem, end) = word.split_at_checked(at)?;
    end.iter().copied().eq(suffix.chars()).then_some(stem)
}

fn ends(word: &[char], suffix: &str) -> bool {
    before(word, suffix).is_some()
}

fn cut(word: &mut Vec<char>, letters: usize) {
    word.truncate(word.len().saturating_sub(letters));
}

/// Whether a letter is none of *a, e, i, o, u*, nor *y* behind a consonant.
fn is_consonant(word: &[char], at: usize) -> bool {
    match word.get(at) {
        Some('a' | 'e' | 'i' | 'o' | 'u') => false,
        Some('y') => {
            // Every *y* of a run is the other kind than the one ahead of it.
            let run = word[..at].iter().rev().take_while(|&&c| c == 'y').count();
            let first = at - run;
            let first_is_consonant =
                first == 0 || matches!(word.get(first - 1), Some('a' | 'e' | 'i' | 'o' | 'u'));
            first_is_consonant == run.is_multiple_of(2)
        }
        _ => true,
    }
}

/// How often a run of vowels is followed by a consonant.
fn measure(word: &[char]) -> usize {
    (1..word.len())
        .filter(|&i| is_consonant(word, i) && !is_consonant(word, i - 1))
        .count()
}

fn ends_double_consonant(word: &[char]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

/// Whether it ends in consonant, vowel, consonant, the last not *w, x, y*; or is a vowel and a
/// consonant.
fn ends_cvc(word: &[char]) -> bool {
    let consonant = |back: usize| is_consonant(word, word.len() - back);
    match word.len() {
        0 | 1 => false,
        2 => !consonant(2) && consonant(1),
        _ => {
            consonant(3)
                && !consonant(2)
                && consonant(1)
                && !matches!(word.last(), Some('w' | 'x' | 'y'))
        }
    }
}
