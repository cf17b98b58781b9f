//! Inner products of many vectors with many vectors.
//!
//! Every product is summed in [`LANES`] lanes and the lanes in one fixed order, so its bits do not
//! depend on how many vectors it was computed with, on the thread, or on the processor (as long as
//! that has fused multiply-add).

/// Independent partial sums of one inner product: one AVX-512 register of f32.
const LANES: usize = 16;
/// Queries held in registers at once.
const QUERIES: usize = 4;
/// Rows held in registers at once.
const ROWS: usize = 2;

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
    tiles::<[f32; LANES]>(queries, rows, dimension, out);
}

/// [`LANES`] floats.
trait Lanes: Copy {
    fn zero() -> Self;
    fn load(from: &[f32; LANES]) -> Self;
    /// `self + a * b`, each lane apart, rounded once where the processor can.
    fn add_product(self, a: Self, b: Self) -> Self;
    fn store(self) -> [f32; LANES];
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
    fn store(self) -> [f32; LANES] {
        self
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Lanes, tiles};

    #[target_feature(enable = "avx512f,fma")]
    pub(super) fn avx512(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
        tiles::<__m512>(queries, rows, dimension, out);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
        tiles::<[__m256; 2]>(queries, rows, dimension, out);
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
        fn store(self) -> [f32; LANES] {
            let mut lanes = [0.0; LANES];
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), self) };
            lanes
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
        fn store(self) -> [f32; LANES] {
            let mut lanes = [0.0; LANES];
            unsafe {
                _mm256_storeu_ps(lanes.as_mut_ptr(), self[0]);
                _mm256_storeu_ps(lanes.as_mut_ptr().add(8), self[1]);
            }
            lanes
        }
    }
}

#[inline(always)]
fn tiles<L: Lanes>(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
    let count = queries.len() / dimension;
    if count == 0 {
        return;
    }
    let mut outs = out.chunks_exact_mut(ROWS * count);
    let mut tiles = rows.chunks_exact(ROWS * dimension);
    for (rows, out) in tiles.by_ref().zip(outs.by_ref()) {
        row_tile::<L, ROWS>(queries, rows, dimension, out);
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
    let queries: [(&[[f32; LANES]], &[f32]); Q] =
        std::array::from_fn(|q| queries[q * dimension..(q + 1) * dimension].as_chunks());
    let rows: [(&[[f32; LANES]], &[f32]); R] =
        std::array::from_fn(|r| rows[r * dimension..(r + 1) * dimension].as_chunks());
    let mut sums = [[L::zero(); Q]; R];
    for block in 0..dimension / LANES {
        // SAFETY: every vector was cut to `dimension` components, which holds all these blocks.
        let queries: [L; Q] =
            std::array::from_fn(|q| L::load(unsafe { queries[q].0.get_unchecked(block) }));
        for (sums, row) in sums.iter_mut().zip(&rows) {
            // SAFETY: as above.
            let row = L::load(unsafe { row.0.get_unchecked(block) });
            for (sum, query) in sums.iter_mut().zip(queries) {
                *sum = sum.add_product(row, query);
            }
        }
    }
    std::array::from_fn(|r| {
        std::array::from_fn(|q| {
            let mut lanes = sums[r][q].store();
            for ((lane, a), b) in lanes.iter_mut().zip(rows[r].1).zip(queries[q].1) {
                *lane += a * b;
            }
            add_lanes(lanes)
        })
    })
}

#[inline(always)]
fn add_lanes(lanes: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
    let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
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
    }
}
