//! Inner products of many vectors with many vectors.
//!
//! Every product is summed in [`LANES`] lanes and the lanes in one fixed order, so its bits do not
//! depend on how many vectors it was computed with, on the thread, or on the processor (as long as
//! that has fused multiply-add).
//!
//! Closures and `array::from_fn` are left out on purpose: code in them is compiled without the
//! instructions that the function around them enables.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Independent partial sums of one inner product: one AVX-512 register of f32.
const LANES: usize = 16;
/// Queries held in registers at once.
const QUERIES: usize = 4;

/// `out[r * queries + q]` becomes the inner product of row `r` and query `q`. All vectors have
/// `dimension` components; `queries` and `rows` hold them end to end, `out` one float a pair.
pub(crate) fn inner_products(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions.
            return unsafe { x86::avx512(queries, rows, dimension, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions.
            return unsafe { x86::avx2(queries, rows, dimension, out) };
        }
    }
    tiles::<[f32; LANES], 2>(queries, rows, dimension, out);
}

/// `out[i]` becomes `halves[i]`, exactly. Both are of one length.
pub(crate) fn widen(halves: &[f16], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        return unsafe { x86::widen(halves, out) };
    }
    halves.convert_to_f32_slice(out);
}

/// [`LANES`] floats.
trait Lanes: Copy {
    fn zero() -> Self;
    fn load(from: &[f32; LANES]) -> Self;
    /// `self + a * b`, each lane apart, rounded once where the processor can.
    fn add_product(self, a: Self, b: Self) -> Self;
    /// The upper half is added to the lower until one lane is left.
    fn sum(self) -> f32;
}

impl Lanes for [f32; LANES] {
    #[inline(always)]
    fn zero() -> Self {
        [0.0; LANES]
    }

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        *from
    }

    #[inline(always)]
    fn add_product(mut self, a: Self, b: Self) -> Self {
        for ((sum, a), b) in self.iter_mut().zip(a).zip(b) {
            // Without the instruction, `mul_add` is a slow call into the C library.
            *sum = if cfg!(target_arch = "aarch64") {
                a.mul_add(b, *sum)
            } else {
                *sum + a * b
            };
        }
        self
    }

    #[inline(always)]
    fn sum(mut self) -> f32 {
        for half in [8, 4, 2, 1] {
            let (lower, upper) = self.split_at_mut(half);
            lower.iter_mut().zip(upper).for_each(|(a, b)| *a += *b);
        }
        self[0]
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::f16;

    use super::{LANES, Lanes, tiles};

    #[target_feature(enable = "avx512f,fma")]
    pub(super) fn avx512(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
        tiles::<__m512, 4>(queries, rows, dimension, out);
    }

    // More than one row would not fit into the sixteen registers.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
        tiles::<[__m256; 2], 1>(queries, rows, dimension, out);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(halves: &[f16], out: &mut [f32]) {
        let ((eights, rest), (wide, wide_rest)) =
            (halves.as_chunks::<8>(), out.as_chunks_mut::<8>());
        for (halves, out) in eights.iter().zip(wide) {
            // SAFETY: both hold eight numbers, and neither load nor store needs alignment.
            unsafe {
                let halves = _mm_loadu_si128(halves.as_ptr().cast());
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(halves));
            }
        }
        for (half, out) in rest.iter().zip(wide_rest) {
            *out = half.to_f32();
        }
    }

    /// Adds as [`Lanes::sum`] does, from eight lanes on.
    // SAFETY (to call): the processor has AVX.
    #[inline(always)]
    unsafe fn sum(lanes: __m256) -> f32 {
        // SAFETY: the caller vouches for AVX.
        unsafe {
            let four = _mm_add_ps(
                _mm256_castps256_ps128(lanes),
                _mm256_extractf128_ps::<1>(lanes),
            );
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    // SAFETY (of this impl): only `avx512` makes these lanes, where the processor has them.
    #[expect(
        clippy::undocumented_unsafe_blocks,
        reason = "the reason stands above for all of them"
    )]
    impl Lanes for __m512 {
        #[inline(always)]
        fn zero() -> Self {
            unsafe { _mm512_setzero_ps() }
        }

        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Self {
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }

        #[inline(always)]
        fn add_product(self, a: Self, b: Self) -> Self {
            unsafe { _mm512_fmadd_ps(a, b, self) }
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            unsafe {
                let upper = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self));
                let lower = _mm512_castps512_ps256(self);
                sum(_mm256_add_ps(lower, _mm256_castpd_ps(upper)))
            }
        }
    }

    // SAFETY (of this impl): only `avx2` makes these lanes, where the processor has them.
    #[expect(
        clippy::undocumented_unsafe_blocks,
        reason = "the reason stands above for all of them"
    )]
    impl Lanes for [__m256; 2] {
        #[inline(always)]
        fn zero() -> Self {
            unsafe { [_mm256_setzero_ps(), _mm256_setzero_ps()] }
        }

        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Self {
            unsafe {
                [
                    _mm256_loadu_ps(from.as_ptr()),
                    _mm256_loadu_ps(from.as_ptr().add(8)),
                ]
            }
        }

        #[inline(always)]
        fn add_product(self, a: Self, b: Self) -> Self {
            unsafe {
                [
                    _mm256_fmadd_ps(a[0], b[0], self[0]),
                    _mm256_fmadd_ps(a[1], b[1], self[1]),
                ]
            }
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            unsafe { sum(_mm256_add_ps(self[0], self[1])) }
        }
    }
}

/// Products in tiles of `R` rows and [`QUERIES`] queries.
#[inline(always)]
fn tiles<L: Lanes, const R: usize>(
    queries: &[f32],
    rows: &[f32],
    dimension: usize,
    out: &mut [f32],
) {
    let count = queries.len() / dimension;
    if count == 0 {
        return;
    }
    let mut outs = out.chunks_exact_mut(R * count);
    let mut tiles = rows.chunks_exact(R * dimension);
    for (rows, out) in tiles.by_ref().zip(outs.by_ref()) {
        row_tile::<L, R>(queries, rows, dimension, out);
    }
    let (rest, out) = (tiles.remainder(), outs.into_remainder());
    for (row, out) in rest
        .chunks_exact(dimension)
        .zip(out.chunks_exact_mut(count))
    {
        row_tile::<L, 1>(queries, row, dimension, out);
    }
}

#[inline(always)]
fn row_tile<L: Lanes, const R: usize>(
    queries: &[f32],
    rows: &[f32],
    dimension: usize,
    out: &mut [f32],
) {
    let count = queries.len() / dimension;
    let mut tiles = queries.chunks_exact(QUERIES * dimension);
    let mut at = 0;
    for tile in tiles.by_ref() {
        let products = products::<L, QUERIES, R>(tile, rows, dimension);
        for (products, out) in products.iter().zip(out.chunks_exact_mut(count)) {
            out[at..at + QUERIES].copy_from_slice(products);
        }
        at += QUERIES;
    }
    for query in tiles.remainder().chunks_exact(dimension) {
        let products = products::<L, 1, R>(query, rows, dimension);
        for ([product], out) in products.iter().zip(out.chunks_exact_mut(count)) {
            out[at] = *product;
        }
        at += 1;
    }
}

#[inline(always)]
fn products<L: Lanes, const Q: usize, const R: usize>(
    queries: &[f32],
    rows: &[f32],
    dimension: usize,
) -> [[f32; Q]; R] {
    assert!(queries.len() >= Q * dimension && rows.len() >= R * dimension);
    let whole = dimension / LANES * LANES;
    let mut sums = [[L::zero(); Q]; R];
    for at in (0..whole).step_by(LANES) {
        let mut tile = [L::zero(); Q];
        for (q, lanes) in tile.iter_mut().enumerate() {
            // SAFETY: within query `q`, of which there are `Q` by the assertion.
            *lanes = L::load(unsafe { lanes_at(queries, q * dimension + at) });
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above, for rows.
            let row = L::load(unsafe { lanes_at(rows, r * dimension + at) });
            for (sum, &query) in sums.iter_mut().zip(&tile) {
                *sum = sum.add_product(row, query);
            }
        }
    }
    let mut products = [[0.0; Q]; R];
    for (r, products) in products.iter_mut().enumerate() {
        for (q, product) in products.iter_mut().enumerate() {
            *product = sums[r][q].sum();
            for at in whole..dimension {
                *product += rows[r * dimension + at] * queries[q * dimension + at];
            }
        }
    }
    products
}

/// The [`LANES`] floats at `at`.
// SAFETY (to call): `at + LANES` is at most the length of `vectors`.
#[inline(always)]
unsafe fn lanes_at(vectors: &[f32], at: usize) -> &[f32; LANES] {
    debug_assert!(at + LANES <= vectors.len());
    // SAFETY: the caller vouches for the range.
    unsafe { &*vectors.as_ptr().add(at).cast() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_product_does_not_depend_on_its_company(
            dimension in 1usize..70,
            queries in 0usize..7,
            rows in 0usize..7,
            seed in prop::collection::vec(-1f32..1.0, 32),
        ) {
            let make = |n: usize, salt: usize| -> Vec<f32> {
                (0..n * dimension).map(|i| seed[(i * 7 + salt + i / 31) % 32]).collect()
            };
            let (q, r) = (make(queries, 3), make(rows, 11));
            let mut all = vec![0.0; queries * rows];
            inner_products(&q, &r, dimension, &mut all);
            for (i, row) in r.chunks_exact(dimension).enumerate() {
                for (j, query) in q.chunks_exact(dimension).enumerate() {
                    let mut one = [0.0];
                    inner_products(query, row, dimension, &mut one);
                    prop_assert_eq!(one[0].to_bits(), all[i * queries + j].to_bits());
                    let exact: f64 = row.iter().zip(query).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                    prop_assert!((f64::from(one[0]) - exact).abs() < 1e-4);
                }
            }
        }

        #[test]
        fn widening_is_exact(bits in prop::collection::vec(any::<u16>(), 0..40)) {
            let halves: Vec<f16> = bits.into_iter().map(f16::from_bits).filter(|x| x.is_finite()).collect();
            let mut wide = vec![0.0; halves.len()];
            widen(&halves, &mut wide);
            let expected: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
            prop_assert_eq!(wide, expected);
        }
    }
}
