use std::collections::HashMap;
use std::ops::Range;

use half::f16;
use memmap2::Mmap;
use rawrag_models::TokenVectors;
use rayon::prelude::*;

use crate::RetrievalError;
use crate::similarity::{inner_products, widen};

/// Token vectors converted to f32 at a time: 192 KiB of MiniLM's, within the second-level cache.
const BLOCK: usize = 128;
/// Token vectors that make a share of work for one thread.
const SHARE: usize = 2048;

/// The token vectors of texts, a row a text, in f16.
///
/// A row may have no token: it then matches nothing.
#[derive(Debug, Default)]
pub struct TokenIndex {
    dimension: usize,
    /// Where each row's tokens begin, and after the last row where they end.
    starts: Vec<usize>,
    /// Rows in which each word-piece occurs, ascending.
    occurrences: HashMap<u32, Vec<u32>>,
    mapped: Option<Mmap>,
    /// Vectors that follow the mapped ones.
    owned: Vec<f16>,
}

/// How similar each of a query's word-pieces is to each row at best.
#[derive(Clone, Debug, PartialEq)]
pub struct Maxima {
    /// Number of the query's word-pieces.
    pub pieces: usize,
    /// Row-major, rows x pieces: cosines in [-1, 1], minus infinity in a row without tokens.
    pub values: Vec<f32>,
}

impl TokenIndex {
    /// An empty index of token vectors of `dimension` components, at least 1.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension: dimension.max(1),
            starts: vec![0],
            ..Self::default()
        }
    }

    /// An index over vectors that are in a file already: `rows` gives each row's word-pieces, in
    /// the order of the file.
    ///
    /// # Errors
    /// When the file is shorter than the rows need.
    pub(crate) fn mapped<'a>(
        dimension: usize,
        map: Mmap,
        rows: impl IntoIterator<Item = &'a [u32]>,
    ) -> Result<Self, RetrievalError> {
        let mut index = Self::new(dimension);
        for pieces in rows {
            index.push_pieces(pieces);
        }
        let needed = index.tokens() * index.dimension * size_of::<f16>();
        if map.len() < needed {
            return Err(RetrievalError::Dimension {
                expected: needed,
                found: map.len(),
            });
        }
        index.mapped = Some(map);
        Ok(index)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of token vectors in all rows.
    pub fn tokens(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the text's vectors are of another dimension or hold what is no number.
    pub fn push(&mut self, text: &TokenVectors) -> Result<(), RetrievalError> {
        let expected = text.pieces.len() * self.dimension;
        if text.vectors.len() != expected {
            return Err(RetrievalError::Dimension {
                expected,
                found: text.vectors.len(),
            });
        }
        if !text.vectors.iter().all(|x| x.is_finite()) {
            return Err(RetrievalError::NotANumber {
                row: self.len() as u32,
            });
        }
        self.push_pieces(&text.pieces);
        self.owned
            .extend(text.vectors.iter().map(|&x| f16::from_f32(x)));
        Ok(())
    }

    /// The number of rows that hold word-piece `piece`, of those that `visible` says may be used.
    pub fn document_frequency(&self, piece: u32, visible: impl Fn(usize) -> bool) -> usize {
        let rows = self.occurrences.get(&piece).map_or(&[][..], Vec::as_slice);
        rows.iter().filter(|&&row| visible(row as usize)).count()
    }

    /// For every row and every word-piece of the query, the best cosine among the row's tokens.
    ///
    /// # Errors
    /// When the query's vectors are of another dimension or hold what is no number.
    pub fn maxima(&self, query: &TokenVectors) -> Result<Maxima, RetrievalError> {
        let pieces = query.pieces.len();
        if query.vectors.len() != pieces * self.dimension {
            let expected = pieces * self.dimension;
            return Err(RetrievalError::Dimension {
                expected,
                found: query.vectors.len(),
            });
        }
        if !query.vectors.iter().all(|x| x.is_finite()) {
            return Err(RetrievalError::NotANumber { row: 0 });
        }
        let mut values = vec![f32::NEG_INFINITY; self.len() * pieces];
        if pieces > 0 {
            // Whole tiles of queries are faster than a remainder; the padding is dropped below.
            let mut padded = query.vectors.clone();
            padded.resize(pieces.next_multiple_of(4) * self.dimension, 0.0);
            let mut rest = &mut values[..];
            let mut shares = Vec::new();
            for rows in self.shares() {
                let (share, after) = rest.split_at_mut(rows.len() * pieces);
                shares.push((rows, share));
                rest = after;
            }
            shares.into_par_iter().for_each_init(
                || (Vec::new(), Vec::new()),
                |scratch, (rows, out)| self.maxima_of(rows, &padded, pieces, scratch, out),
            );
        }
        Ok(Maxima { pieces, values })
    }

    /// Vectors of the tokens at these places.
    pub(crate) fn vectors(&self, tokens: Range<usize>) -> &[f16] {
        let at = tokens.start * self.dimension..tokens.end * self.dimension;
        let mapped: &[f16] = self.mapped.as_ref().map_or(&[], |map| {
            bytemuck::cast_slice(&map[..map.len() / size_of::<f16>() * size_of::<f16>()])
        });
        let in_map = self.tokens() * self.dimension - self.owned.len();
        if at.end <= in_map {
            &mapped[at]
        } else {
            &self.owned[at.start - in_map..at.end - in_map]
        }
    }

    /// Where a row's tokens are.
    pub(crate) fn row(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    fn push_pieces(&mut self, pieces: &[u32]) {
        let row = self.len() as u32;
        for &piece in pieces {
            let rows = self.occurrences.entry(piece).or_default();
            if rows.last() != Some(&row) {
                rows.push(row);
            }
        }
        self.starts.push(self.tokens() + pieces.len());
    }

    /// The rows in runs of about [`SHARE`] tokens, none of which holds both mapped and owned ones.
    fn shares(&self) -> Vec<Range<usize>> {
        let in_map = self.tokens() - self.owned.len() / self.dimension;
        let mut shares = Vec::new();
        let mut first = 0;
        for row in 0..self.len() {
            let end = self.starts[row + 1];
            if end - self.starts[first] >= SHARE || end == in_map || row + 1 == self.len() {
                shares.push(first..row + 1);
                first = row + 1;
            }
        }
        shares
    }

    fn maxima_of(
        &self,
        rows: Range<usize>,
        queries: &[f32],
        pieces: usize,
        (block, products): &mut (Vec<f32>, Vec<f32>),
        out: &mut [f32],
    ) {
        let width = queries.len() / self.dimension;
        let tokens = self.starts[rows.start]..self.starts[rows.end];
        let vectors = self.vectors(tokens.clone());
        let mut row = rows.start;
        let mut token = tokens.start;
        for half in vectors.chunks(BLOCK * self.dimension) {
            block.resize(half.len(), 0.0);
            widen(half, block);
            products.resize(half.len() / self.dimension * width, 0.0);
            inner_products(queries, block, self.dimension, products);
            for products in products.chunks_exact(width) {
                while self.starts[row + 1] <= token {
                    row += 1;
                }
                let best = &mut out[(row - rows.start) * pieces..][..pieces];
                for (best, &product) in best.iter_mut().zip(products) {
                    *best = best.max(product);
                }
                token += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(pieces: Vec<u32>, dimension: usize) -> TokenVectors {
        let vectors = pieces
            .iter()
            .flat_map(|&p| {
                (0..dimension).map(move |i| ((p as usize * 31 + i * 7) % 13) as f32 / 16.0 - 0.375)
            })
            .collect();
        TokenVectors {
            pieces,
            vectors,
            pooled: vec![],
        }
    }

    proptest! {
        #[test]
        fn maxima_are_the_best_products_of_each_row(
            rows in prop::collection::vec(prop::collection::vec(0u32..50, 0..9), 0..40),
            query in prop::collection::vec(0u32..50, 0..7),
            dimension in 1usize..40,
        ) {
            let mut index = TokenIndex::new(dimension);
            for row in &rows {
                index.push(&text(row.clone(), dimension)).expect("numbers");
            }
            let query = text(query, dimension);
            let maxima = index.maxima(&query).expect("numbers");
            for (i, row) in rows.iter().enumerate() {
                let row = text(row.clone(), dimension);
                for (t, q) in query.vectors.chunks_exact(dimension).enumerate() {
                    let best = row.vectors.chunks_exact(dimension)
                        .map(|d| d.iter().zip(q).map(|(a, b)| a * b).sum::<f32>())
                        .fold(f32::NEG_INFINITY, f32::max);
                    let got = maxima.values[i * maxima.pieces + t];
                    // The vectors made above are exact in f16.
                    prop_assert!(got == best || (got - best).abs() < 1e-5);
                }
            }
            for piece in 0..50 {
                let holding = rows.iter().enumerate().filter(|(i, row)| i % 2 == 0 && row.contains(&piece)).count();
                prop_assert_eq!(index.document_frequency(piece, |row| row % 2 == 0), holding);
            }
        }
    }
}
