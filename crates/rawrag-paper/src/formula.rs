//! Formulas of claims: arithmetic over published numbers that keeps track of their rounding.
//!
//! `100 * ([1/nano/recall@3] / max([1/*!nano/recall@3]) - 1)`: brackets refer to published
//! numbers, `*` in a row makes a list, `!` leaves rows out of it. There are `+ - * /`,
//! comparisons, `and`, and the functions `max min sum mean count abs sqrt`, `mcnemar(b, c)` (exact,
//! two-sided), `noninferiority(b, c, n, margin)` (Wald, one-sided p) and `holm(p, family)`.

use std::fmt;

use rawrag_statistics::{Adjustment, PValue, PairCounts, PairedMethod, adjust, noninferiority};

/// A number known up to the rounding of what it was computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounded {
    pub(crate) low: f64,
    pub(crate) value: f64,
    pub(crate) high: f64,
}

/// What a formula comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Number(Rounded),
    List(Vec<Rounded>),
    Truth(bool),
}

/// A formula, parsed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Formula {
    Number(f64),
    Reference(String),
    Call(String, Vec<Formula>),
    Negated(Box<Formula>),
    Pair(Box<Formula>, Operator, Box<Formula>),
    Both(Box<Formula>, Box<Formula>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Less,
    AtMost,
    Equal,
}

/// Why a formula has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It is written wrongly.
    Wrong(String),
    /// A number it refers to is not in the texts at hand.
    Missing(String),
}

impl Rounded {
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            low: value,
            value,
            high: value,
        }
    }

    fn spanned(value: f64, ends: [f64; 4]) -> Self {
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { low, value, high }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            value: self.value + other.value,
            high: self.high + other.high,
        }
    }

    fn negated(self) -> Self {
        Self {
            low: -self.high,
            value: -self.value,
            high: -self.low,
        }
    }

    fn times(self, other: Self) -> Self {
        let ends = [
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ];
        Self::spanned(self.value * other.value, ends)
    }

    fn over(self, other: Self) -> Result<Self, Failed> {
        if other.low <= 0.0 && other.high >= 0.0 {
            return Err(Failed::Wrong(
                "division by a number that may be zero".into(),
            ));
        }
        let ends = [
            self.low / other.low,
            self.low / other.high,
            self.high / other.low,
            self.high / other.high,
        ];
        Ok(Self::spanned(self.value / other.value, ends))
    }
}

impl Formula {
    /// # Errors
    /// What is wrong and where in the text, as words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        let formula = parser.conjunction()?;
        parser.space();
        if parser.at < text.len() {
            Err(parser.unexpected("an operator"))
        } else {
            Ok(formula)
        }
    }

    /// Its outcome, with `look_up` giving the published numbers that references name.
    pub(crate) fn outcome(
        &self,
        look_up: &dyn Fn(&str) -> Result<Vec<Rounded>, Failed>,
    ) -> Result<Outcome, Failed> {
        Ok(match self {
            Self::Number(value) => Outcome::Number(Rounded::exact(*value)),
            Self::Reference(name) => {
                let found = look_up(name)?;
                match found.as_slice() {
                    [one] if !name.contains('*') => Outcome::Number(*one),
                    _ => Outcome::List(found),
                }
            }
            Self::Call(name, arguments) => {
                let arguments: Vec<Outcome> = arguments
                    .iter()
                    .map(|a| a.outcome(look_up))
                    .collect::<Result<_, _>>()?;
                call(name, &arguments)?
            }
            Self::Negated(inner) => Outcome::Number(inner.number(look_up)?.negated()),
            Self::Both(left, right) => {
                Outcome::Truth(left.truth(look_up)? && right.truth(look_up)?)
            }
            Self::Pair(left, operator, right) => {
                let (left, right) = (left.number(look_up)?, right.number(look_up)?);
                match operator {
                    Operator::Plus => Outcome::Number(left.plus(right)),
                    Operator::Minus => Outcome::Number(left.plus(right.negated())),
                    Operator::Times => Outcome::Number(left.times(right)),
                    Operator::Over => Outcome::Number(left.over(right)?),
                    Operator::Less => Outcome::Truth(left.value < right.value - NEAR),
                    Operator::AtMost => Outcome::Truth(left.value <= right.value + NEAR),
                    Operator::Equal => Outcome::Truth((left.value - right.value).abs() <= NEAR),
                }
            }
        })
    }

    fn number(
        &self,
        look_up: &dyn Fn(&str) -> Result<Vec<Rounded>, Failed>,
    ) -> Result<Rounded, Failed> {
        match self.outcome(look_up)? {
            Outcome::Number(number) => Ok(number),
            Outcome::List(_) => Err(Failed::Wrong(format!(
                "`{self}` is a list; take its max, sum, ..."
            ))),
            Outcome::Truth(_) => Err(Failed::Wrong(format!("`{self}` is no number"))),
        }
    }

    fn truth(
        &self,
        look_up: &dyn Fn(&str) -> Result<Vec<Rounded>, Failed>,
    ) -> Result<bool, Failed> {
        match self.outcome(look_up)? {
            Outcome::Truth(truth) => Ok(truth),
            _ => Err(Failed::Wrong(format!("`{self}` is no comparison"))),
        }
    }
}

/// Comparisons are of decimal numbers of a few digits; their binary sums are off by less.
const NEAR: f64 = 1e-9;

/// The functions of formulas, over numbers and lists of them.
fn call(name: &str, arguments: &[Outcome]) -> Result<Outcome, Failed> {
    let mut numbers = Vec::new();
    for argument in arguments {
        match argument {
            Outcome::Number(number) => numbers.push(*number),
            Outcome::List(list) => numbers.extend(list),
            Outcome::Truth(_) => return Err(Failed::Wrong(format!("`{name}` of a comparison"))),
        }
    }
    let wrong = |what: &str| Failed::Wrong(format!("`{name}` {what}"));
    let fold = |better: fn(f64, f64) -> f64| {
        let pick = |a: Rounded, b: Rounded| Rounded {
            low: better(a.low, b.low),
            value: better(a.value, b.value),
            high: better(a.high, b.high),
        };
        numbers
            .iter()
            .copied()
            .reduce(pick)
            .ok_or_else(|| wrong("of nothing"))
    };
    let sum = || {
        numbers
            .iter()
            .copied()
            .fold(Rounded::exact(0.0), Rounded::plus)
    };
    let number = match (name, numbers.as_slice()) {
        ("max", _) => fold(f64::max)?,
        ("min", _) => fold(f64::min)?,
        ("sum", _) => sum(),
        ("mean", [_, ..]) => sum().over(Rounded::exact(numbers.len() as f64))?,
        ("count", _) => Rounded::exact(numbers.len() as f64),
        ("abs", [x]) if x.low >= 0.0 => *x,
        ("abs", [x]) if x.high <= 0.0 => x.negated(),
        ("abs", [x]) => Rounded {
            low: 0.0,
            value: x.value.abs(),
            high: x.high.max(-x.low),
        },
        ("sqrt", [x]) if x.low >= 0.0 => Rounded {
            low: x.low.sqrt(),
            value: x.value.sqrt(),
            high: x.high.sqrt(),
        },
        ("mcnemar", [b, c]) => {
            let counts = pair_counts(*b, *c, None).ok_or_else(|| wrong("of other than counts"))?;
            Rounded::exact(counts.exact().value())
        }
        ("noninferiority", [b, c, n, margin]) => {
            let counts =
                pair_counts(*b, *c, Some(*n)).ok_or_else(|| wrong("of other than counts"))?;
            let test = noninferiority(&counts, margin.value, 0.05, PairedMethod::Wald);
            Rounded::exact(
                test.map_err(|undefined| wrong(&undefined.to_string()))?
                    .p
                    .value(),
            )
        }
        ("holm", [p, family @ ..]) => holm(*p, family)
            .ok_or_else(|| wrong("of what is no p-value, or not in the family that follows it"))?,
        ("mcnemar" | "noninferiority" | "holm", _) => {
            return Err(wrong("of another number of numbers"));
        }
        ("mean" | "abs" | "sqrt", _) => return Err(wrong("of another number of numbers")),
        _ => {
            return Err(wrong(
                "is no function; there are max, min, sum, mean, count, abs, sqrt, mcnemar, noninferiority, holm",
            ));
        }
    };
    Ok(Outcome::Number(number))
}

/// Pairs of which `b` are right only in the first system, `c` only in the second, of `n` in all.
fn pair_counts(b: Rounded, c: Rounded, n: Option<Rounded>) -> Option<PairCounts> {
    let count = |x: Rounded| {
        let whole = x.value >= 0.0 && x.value.fract() == 0.0 && x.value < 1e15 && x.low >= x.high;
        whole.then_some(x.value as u64)
    };
    let (a_only, b_only) = (count(b)?, count(c)?);
    let neither = match n {
        Some(n) => count(n)?.checked_sub(a_only.checked_add(b_only)?)?,
        None => 0,
    };
    Some(PairCounts {
        both: 0,
        a_only,
        b_only,
        neither,
    })
}

/// The Holm-corrected p of a member of a family, each member with its rounding.
fn holm(p: Rounded, family: &[Rounded]) -> Option<Rounded> {
    let at = family.iter().position(|member| *member == p)?;
    let corrected = |end: fn(&Rounded) -> f64| {
        let raw: Option<Vec<PValue>> = family
            .iter()
            .map(|member| PValue::new(end(member).min(1.0)))
            .collect();
        adjust(&raw?, Adjustment::Holm).get(at).map(|p| p.value())
    };
    Some(Rounded {
        low: corrected(|m| m.low)?,
        value: corrected(|m| m.value)?,
        high: corrected(|m| m.high)?,
    })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn unexpected(&self, wanted: &str) -> String {
        let rest = self.rest();
        let found = if rest.is_empty() { "the end" } else { rest };
        format!("the formula has `{found}` where {wanted} should stand")
    }

    fn pair(left: Formula, operator: Operator, right: Formula) -> Formula {
        Formula::Pair(Box::new(left), operator, Box::new(right))
    }

    fn conjunction(&mut self) -> Result<Formula, String> {
        let mut left = self.comparison()?;
        while self.take("and ") {
            left = Formula::Both(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Formula, String> {
        let left = self.sum()?;
        Ok(if self.take("<=") {
            Self::pair(left, Operator::AtMost, self.sum()?)
        } else if self.take(">=") {
            Self::pair(self.sum()?, Operator::AtMost, left)
        } else if self.take("<") {
            Self::pair(left, Operator::Less, self.sum()?)
        } else if self.take(">") {
            Self::pair(self.sum()?, Operator::Less, left)
        } else if self.take("=") {
            Self::pair(left, Operator::Equal, self.sum()?)
        } else {
            left
        })
    }

    fn sum(&mut self) -> Result<Formula, String> {
        let mut left = self.product()?;
        loop {
            left = if self.take("+") {
                Self::pair(left, Operator::Plus, self.product()?)
            } else if self.take("-") {
                Self::pair(left, Operator::Minus, self.product()?)
            } else {
                return Ok(left);
            };
        }
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.atom()?;
        loop {
            left = if self.take("*") {
                Self::pair(left, Operator::Times, self.atom()?)
            } else if self.take("/") {
                Self::pair(left, Operator::Over, self.atom()?)
            } else {
                return Ok(left);
            };
        }
    }

    fn atom(&mut self) -> Result<Formula, String> {
        if self.take("-") {
            return Ok(Formula::Negated(Box::new(self.atom()?)));
        }
        if self.take("(") {
            let inner = self.conjunction()?;
            return if self.take(")") {
                Ok(inner)
            } else {
                Err(self.unexpected("`)`"))
            };
        }
        if self.take("[") {
            let name = self.rest().split(']').next().unwrap_or_default().to_owned();
            self.at += name.len();
            return if self.take("]") {
                Ok(Formula::Reference(name))
            } else {
                Err(self.unexpected("`]`"))
            };
        }
        self.space();
        let word = self.word(|c| c.is_ascii_alphabetic() || c == '_');
        if !word.is_empty() {
            let mut arguments = Vec::new();
            if !self.take("(") {
                return Err(self.unexpected("`(`"));
            }
            loop {
                arguments.push(self.conjunction()?);
                if self.take(")") {
                    return Ok(Formula::Call(word, arguments));
                }
                if !self.take(",") {
                    return Err(self.unexpected("`,` or `)`"));
                }
            }
        }
        let unexpected = self.unexpected("a number, a reference or a function");
        let digits = self.word(|c| c.is_ascii_digit() || c == '.' || c == '_');
        digits
            .replace('_', "")
            .parse()
            .map(Formula::Number)
            .map_err(|_| unexpected)
    }

    fn word(&mut self, part: fn(char) -> bool) -> String {
        let word: String = self.rest().chars().take_while(|&c| part(c)).collect();
        self.at += word.len();
        word
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Reference(name) => write!(f, "[{name}]"),
            Self::Call(name, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(Self::to_string).collect();
                write!(f, "{name}({})", arguments.join(", "))
            }
            Self::Negated(inner) => write!(f, "-{inner}"),
            Self::Pair(left, operator, right) => write!(f, "({left} {operator} {right})"),
            Self::Both(left, right) => write!(f, "({left} and {right})"),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Over => "/",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Result<Outcome, Failed> {
        let look_up = |name: &str| match name {
            "a" => Ok(vec![Rounded {
                low: 1.95,
                value: 2.0,
                high: 2.05,
            }]),
            "all/*" => Ok([1.0, 2.0, 4.0].map(Rounded::exact).to_vec()),
            _ => Err(Failed::Missing(name.to_owned())),
        };
        Formula::parse(text)
            .map_err(Failed::Wrong)?
            .outcome(&look_up)
    }

    #[test]
    fn arithmetic_binds_as_usual_and_carries_rounding() {
        assert_eq!(
            outcome("1 + 2 * 3 - -4 / 2"),
            Ok(Outcome::Number(Rounded::exact(9.0)))
        );
        assert_eq!(
            outcome("(8 - 2 - 1) * 1_000"),
            Ok(Outcome::Number(Rounded::exact(5000.0)))
        );
        assert_eq!(
            outcome("10 - [a] * 2"),
            Ok(Outcome::Number(Rounded {
                low: 5.9,
                value: 6.0,
                high: 6.1
            }))
        );
        assert_eq!(
            outcome("mean([all/*], 5)"),
            Ok(Outcome::Number(Rounded::exact(3.0)))
        );
        assert_eq!(
            outcome("max([all/*]) >= 4 and 0.1 + 0.2 = 0.3"),
            Ok(Outcome::Truth(true))
        );
        assert_eq!(outcome("0.1 + 0.2 > 0.3"), Ok(Outcome::Truth(false)));
    }

    /// scipy 1.17.1: `binomtest(17, 169).pvalue` is 2.7493616558929537e-28; Holm by hand.
    #[test]
    fn tests_and_corrections_are_those_of_the_statistics_crate() {
        let number = |text: &str| match outcome(text) {
            Ok(Outcome::Number(number)) => number.value,
            other => panic!("{text}: {other:?}"),
        };
        assert!((number("mcnemar(152, 17)") / 2.7493616558929537e-28 - 1.0).abs() < 1e-9);
        assert!((number("holm(0.02, 0.01, 0.02, 0.5)") - 0.04).abs() < 1e-12);
        assert!((number("noninferiority(69, 73, 778, 0.05)") - 0.0017).abs() < 5e-5);
    }

    #[test]
    fn what_cannot_be_computed_says_why() {
        let wrong = |text: &str| match outcome(text) {
            Err(Failed::Wrong(why) | Failed::Missing(why)) => why,
            other => panic!("{text}: {other:?}"),
        };
        insta::assert_snapshot!(
            [
                "1 +",
                "1 2",
                "(1",
                "[a",
                "most(1)",
                "1 / ([a] - 2)",
                "[all/*] + 1",
                "[b] + 1",
                "1 and 2 < 3",
                "mean([all/*] < 2)",
                "max",
                "mcnemar([a], 3)",
                "holm(0.1, 0.2, 0.3)",
                "noninferiority(5, 6, 3, 0.05)",
                "holm(0, 0)"
            ]
            .map(wrong)
            .join("\n")
        );
    }
}
