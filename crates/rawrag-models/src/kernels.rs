//! Element-wise parts of the forward pass, compiled for the widest vectors the processor has.
//!
//! Loops are plain so that the compiler vectorises them; sums run in [`LANES`] independent lanes,
//! so their order does not depend on the processor.

use multiversion::multiversion;

/// Independent partial sums: one AVX-512 register of f32.
const LANES: usize = 16;

/// `x <- x / 2 * (1 + erf(x / sqrt 2))`, the exact form of GELU that BERT was trained with.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
pub(crate) fn gelu(values: &mut [f32]) {
    for x in values {
        *x *= 0.5 + 0.5 * erf(*x * std::f32::consts::FRAC_1_SQRT_2);
    }
}

/// Softmax of every row of `rows`, a row-major matrix of `width` columns, `width` at least 1.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
pub(crate) fn softmax(rows: &mut [f32], width: usize) {
    for row in rows.chunks_exact_mut(width) {
        let largest = reduce(
            row,
            f32::NEG_INFINITY,
            |a, x| if x > a { x } else { a },
            |a, b| if b > a { b } else { a },
        );
        for x in row.iter_mut() {
            *x = exp(*x - largest);
        }
        let scale = 1.0 / reduce(row, 0.0, |a, x| a + x, |a, b| a + b);
        for x in row {
            *x *= scale;
        }
    }
}

/// `x <- weight * normalised(x + y) + bias` for every row of `x`; a row is as long as `weight`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2"))]
pub(crate) fn add_norm(x: &mut [f32], y: &[f32], weight: &[f32], bias: &[f32], epsilon: f32) {
    let width = weight.len();
    for (row, y) in x.chunks_exact_mut(width).zip(y.chunks_exact(width)) {
        for (x, y) in row.iter_mut().zip(y) {
            *x += y;
        }
        let mean = reduce(row, 0.0, |a, x| a + x, |a, b| a + b) / width as f32;
        let variance =
            reduce(row, 0.0, |a, x| a + (x - mean) * (x - mean), |a, b| a + b) / width as f32;
        let scale = 1.0 / (variance + epsilon).sqrt();
        for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
            *x = (*x - mean) * scale * weight + bias;
        }
    }
}

/// Scales `row` to Euclidean length 1; false, and `row` unchanged, if it has no direction.
pub(crate) fn scale_to_unit(row: &mut [f32]) -> bool {
    let length = reduce(row, 0.0, |a, x| a + x * x, |a, b| a + b).sqrt();
    let directed = length.is_finite() && length > 0.0;
    if directed {
        for x in row {
            *x /= length;
        }
    }
    directed
}

/// The inner product of two rows of equal length.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline(always)]
fn reduce(
    values: &[f32],
    start: f32,
    step: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = step(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, x);
    }
    lanes.into_iter().fold(start, join)
}

/// The error function to 4e-7, as `x P(x^2) / Q(x^2)`.
///
/// The coefficients are a minimax fit over |x| <= 3.92, beyond which erf rounds to one; its own
/// error is 1.6e-8, the rest is rounding.
#[expect(
    clippy::approx_constant,
    reason = "a fitted coefficient that happens to be near 2 / sqrt pi"
)]
#[inline(always)]
fn erf(x: f32) -> f32 {
    let x = if x > 3.92 { 3.92 } else { x };
    let x = if x < -3.92 { -3.92 } else { x };
    let t = x * x;
    let p = ((((2.034_737_5e-6 * t + 2.874_801_3e-4) * t + 3.868_342_4e-3) * t + 5.306_053e-2) * t
        + 0.192_764_36)
        * t
        + 1.128_379;
    let q = ((((3.807_070_6e-5 * t + 1.188_119_5e-3) * t + 1.517_232_5e-2) * t + 0.115_084_745)
        * t
        + 0.504_164_64)
        * t
        + 1.0;
    x * (p / q)
}

/// The exponential of `x` in [-87, 0] to 2e-7 of its value; below that range, that of -87.
///
/// `x = k ln 2 + r` with |r| <= ln 2 / 2: the Taylor polynomial of degree seven gives `exp(r)`, and
/// `k` goes into the exponent's bits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first short enough that its product with `k` is exact.
    const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let x = if x < -87.0 { -87.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let k = rounded - ROUND;
    let r = (x - k * LN2.0) - k * LN2.1;
    let series =
        ((((((r / 5040.0 + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0) * r + 1.0 / 6.0) * r
            + 0.5)
            * r
            + 1.0)
            * r
            + 1.0;
    let power = rounded.to_bits().wrapping_add(127).wrapping_shl(23);
    series * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use super::{add_norm, exp, gelu, softmax};

    /// From scipy 1.17: `x * scipy.special.ndtr(x)` in f64.
    const GELU: [(f32, f64); 9] = [
        (-6.0, -5.919_525_870_226_167e-9),
        (-3.0, -0.004_049_694_094_890_28),
        (-1.0, -0.158_655_253_931_457_07),
        (-1e-3, -0.000_499_601_081_496_917_1),
        (0.0, 0.0),
        (0.5, 0.345_731_230_637_006_56),
        (1.0, 0.841_344_746_068_542_9),
        (2.5, 2.484_475_836_685_559_7),
        (40.0, 40.0),
    ];

    #[test]
    fn gelu_agrees_with_the_error_function() {
        for (x, expected) in GELU {
            let mut values = [x; 19];
            gelu(&mut values);
            for y in values {
                assert!(
                    (f64::from(y) - expected).abs() <= 1e-6_f64.max(2e-7 * expected.abs()),
                    "{x}: {y} {expected}"
                );
            }
        }
    }

    #[test]
    fn exponential_keeps_seven_digits() {
        for i in 0..=87_000 {
            let x = -(i as f32) / 1000.0;
            let (y, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((y / exact - 1.0).abs() < 3e-7, "{x}: {y} {exact}");
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn softmax_rows_sum_to_one_at_any_width_and_scale() {
        for width in [1, 2, 15, 16, 17, 256] {
            let mut rows: Vec<f32> = (0..3 * width)
                .map(|i| ((i * 37) % 101) as f32 - 500.0)
                .collect();
            softmax(&mut rows, width);
            for row in rows.chunks(width) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{width}");
                assert!(row.iter().all(|&p| (0.0..=1.0).contains(&p)));
            }
        }
    }

    #[test]
    fn add_norm_centres_and_scales_each_row() {
        let width = 21;
        let mut x: Vec<f32> = (0..2 * width).map(|i| ((i * 31) % 17) as f32).collect();
        let y: Vec<f32> = (0..2 * width).map(|i| ((i * 13) % 7) as f32).collect();
        let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| f64::from(x + y)).collect();
        add_norm(&mut x, &y, &[2.0; 21], &[0.5; 21], 1e-12);
        for (row, sum) in x.chunks(width).zip(sum.chunks(width)) {
            let mean = sum.iter().sum::<f64>() / 21.0;
            let deviation =
                (sum.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 21.0).sqrt();
            for (got, v) in row.iter().zip(sum) {
                assert!((f64::from(*got) - (2.0 * (v - mean) / deviation + 0.5)).abs() < 1e-5);
            }
        }
    }
}
