//! Inner products of many vectors with many vectors.
//!
//! Every product is summed in [`LANES`] lanes and the lanes in one fixed order, so its bits do not
//! depend on how many vectors it was computed with, on the thread, or on the processor (as long as
//! that has fused multiply-add).

/// Independent partial sums of one inner product: one AVX-512 register of f32.
const LANES: usize = 16;
/// Queries and rows held in registers at once.
const TILE: (usize, usize) = (4, 2);

/// `out[r * queries + q]` becomes the inner product of row `r` and query `q`. All vectors have
/// `dimension` components; `queries` and `rows` hold them end to end, `out` one float a pair.
pub(crate) fn inner_products(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
        fn avx512(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
            tiles::<true>(queries, rows, dimension, out);
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
            tiles::<true>(queries, rows, dimension, out);
        }
        let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if fused
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
        {
            // SAFETY: the processor has these instructions.
            return unsafe { avx512(queries, rows, dimension, out) };
        }
        if fused {
            // SAFETY: the processor has these instructions.
            return unsafe { avx2(queries, rows, dimension, out) };
        }
    }
    tiles::<{ cfg!(target_arch = "aarch64") }>(queries, rows, dimension, out);
}

#[inline(always)]
fn tiles<const FUSED: bool>(queries: &[f32], rows: &[f32], dimension: usize, out: &mut [f32]) {
    let count = queries.len() / dimension;
    if count == 0 {
        return;
    }
    let mut outs = out.chunks_exact_mut(TILE.1 * count);
    let mut tiles = rows.chunks_exact(TILE.1 * dimension);
    for (rows, out) in tiles.by_ref().zip(outs.by_ref()) {
        let rows = [&rows[..dimension], &rows[dimension..]];
        row_tile::<2, FUSED>(queries, rows, dimension, out);
    }
    let (rest, out) = (tiles.remainder(), outs.into_remainder());
    if rest.len() == dimension {
        row_tile::<1, FUSED>(queries, [rest], dimension, out);
    }
}

#[inline(always)]
fn row_tile<const R: usize, const FUSED: bool>(
    queries: &[f32],
    rows: [&[f32]; R],
    dimension: usize,
    out: &mut [f32],
) {
    let count = queries.len() / dimension;
    let mut tiles = queries.chunks_exact(TILE.0 * dimension);
    let mut q = 0;
    for tile in tiles.by_ref() {
        let tile: [&[f32]; TILE.0] =
            std::array::from_fn(|i| &tile[i * dimension..(i + 1) * dimension]);
        let products = products::<{ TILE.0 }, R, FUSED>(tile, rows, dimension);
        for (r, products) in products.iter().enumerate() {
            out[r * count + q..][..TILE.0].copy_from_slice(products);
        }
        q += TILE.0;
    }
    for query in tiles.remainder().chunks_exact(dimension) {
        let products = products::<1, R, FUSED>([query], rows, dimension);
        for (r, [product]) in products.iter().enumerate() {
            out[r * count + q] = *product;
        }
        q += 1;
    }
}

#[inline(always)]
fn products<const Q: usize, const R: usize, const FUSED: bool>(
    queries: [&[f32]; Q],
    rows: [&[f32]; R],
    dimension: usize,
) -> [[f32; Q]; R] {
    let blocks = dimension / LANES;
    let split = |v: &'_ [f32]| -> (*const [f32; LANES], *const f32) {
        let (whole, rest) = v[..dimension].as_chunks::<LANES>();
        (whole.as_ptr(), rest.as_ptr())
    };
    let (queries, rows) = (queries.map(split), rows.map(split));
    let mut lanes = [[[0f32; LANES]; Q]; R];
    for block in 0..blocks {
        for r in 0..R {
            for q in 0..Q {
                // SAFETY: every vector was cut to `dimension` components above, which holds
                // `blocks` whole blocks.
                let (row, query) = unsafe { (&*rows[r].0.add(block), &*queries[q].0.add(block)) };
                for ((sum, &row), &query) in lanes[r][q].iter_mut().zip(row).zip(query) {
                    *sum = multiply_add::<FUSED>(row, query, *sum);
                }
            }
        }
    }
    for lane in 0..dimension % LANES {
        for r in 0..R {
            for q in 0..Q {
                // SAFETY: `dimension % LANES` components follow the whole blocks.
                let (row, query) = unsafe { (*rows[r].1.add(lane), *queries[q].1.add(lane)) };
                let sum = &mut lanes[r][q][lane];
                *sum = multiply_add::<FUSED>(row, query, *sum);
            }
        }
    }
    lanes.map(|row| row.map(add_lanes))
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, sum: f32) -> f32 {
    // Without the instruction, `mul_add` is a slow call into the C library.
    if FUSED { a.mul_add(b, sum) } else { a * b + sum }
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
