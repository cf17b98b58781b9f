use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use rayon::prelude::*;

use crate::order::{key, scored};
use crate::similarity::inner_products;
use crate::{RetrievalError, Scored};

const MAGIC: [u8; 8] = *b"rawragV1";
const HEADER: usize = 16;
/// Rows scored at a time: enough for a thread to be worth waking.
const BLOCK: usize = 512;

/// An exact index of vectors of one dimension, in f32.
///
/// Rows are numbered from 0 in the order in which they were added, and scored by inner product,
/// which is the cosine for rows of length 1. A clone is a snapshot that shares the rows: searching
/// it goes on undisturbed while rows are added to the original.
#[derive(Clone, Debug)]
pub struct VectorIndex {
    dimension: usize,
    segments: Vec<Arc<Segment>>,
    rows: usize,
}

#[derive(Debug)]
enum Segment {
    Owned(Vec<f32>),
    Mapped { map: Mmap, rows: usize },
}

impl Segment {
    fn vectors(&self, dimension: usize) -> &[f32] {
        match self {
            Self::Owned(vectors) => vectors,
            Self::Mapped { map, rows } => {
                bytemuck::cast_slice(&map[HEADER..HEADER + rows * dimension * 4])
            }
        }
    }
}

impl VectorIndex {
    /// An empty index of vectors of `dimension` components, at least 1.
    ///
    /// # Panics
    /// If `dimension` is 0.
    pub fn new(dimension: usize) -> Self {
        assert!(dimension > 0, "a vector has at least one component");
        Self {
            dimension,
            segments: Vec::new(),
            rows: 0,
        }
    }

    /// Components of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds rows that lie end to end in `vectors`.
    ///
    /// # Errors
    /// When `vectors` is no whole number of rows or holds a NaN or an infinity; nothing is added.
    pub fn append(&mut self, vectors: &[f32]) -> Result<(), RetrievalError> {
        self.check(vectors)?;
        match self.segments.last_mut().and_then(Arc::get_mut) {
            Some(Segment::Owned(rows)) => rows.extend_from_slice(vectors),
            _ => self
                .segments
                .push(Arc::new(Segment::Owned(vectors.to_vec()))),
        }
        self.rows += vectors.len() / self.dimension;
        Ok(())
    }

    /// A row's vector.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let mut at = row * self.dimension;
        for segment in &self.segments {
            let vectors = segment.vectors(self.dimension);
            if at < vectors.len() {
                return vectors.get(at..at + self.dimension);
            }
            at -= vectors.len();
        }
        None
    }

    /// The `n` rows most similar to `query`: higher first, among equals the earlier row.
    ///
    /// # Errors
    /// When `query` is not one vector of finite components.
    pub fn top(&self, query: &[f32], n: usize) -> Result<Vec<Scored>, RetrievalError> {
        self.one(query)?;
        Ok(self.top_many(query, n)?.pop().unwrap_or_default())
    }

    /// [`Self::top`] for every query of those that lie end to end in `queries`, bit for bit the
    /// same, and faster than one at a time: every block of rows is read once for all of them.
    ///
    /// # Errors
    /// As [`Self::append`], for the queries.
    pub fn top_many(&self, queries: &[f32], n: usize) -> Result<Vec<Vec<Scored>>, RetrievalError> {
        self.check(queries)?;
        let count = queries.len() / self.dimension;
        if count == 0 {
            return Ok(Vec::new());
        }
        let blocks = self.blocks();
        let shares = rayon::current_num_threads().clamp(1, blocks.len().max(1));
        let per_share = blocks.len().div_ceil(shares).max(1);
        let mut kept = blocks
            .par_chunks(per_share)
            .map(|blocks| {
                let mut products = Vec::new();
                let mut kept: Vec<Kept> = (0..count).map(|_| Kept::new(n)).collect();
                for &(first, rows) in blocks {
                    products.resize(rows.len() / self.dimension * count, 0.0);
                    inner_products(queries, rows, self.dimension, &mut products);
                    for (q, kept) in kept.iter_mut().enumerate() {
                        let scores = products[q..].iter().step_by(count);
                        kept.offer((first..).zip(scores.copied()));
                    }
                }
                kept
            })
            .reduce_with(|mut left, right| {
                left.iter_mut()
                    .zip(right)
                    .for_each(|(left, right)| left.merge(right));
                left
            })
            .unwrap_or_else(|| (0..count).map(|_| Kept::new(n)).collect());
        Ok(kept.drain(..).map(Kept::into_sorted).collect())
    }

    /// The score of every row, in row order.
    ///
    /// # Errors
    /// When `query` is not one vector of finite components.
    pub fn scores(&self, query: &[f32]) -> Result<Vec<f32>, RetrievalError> {
        self.one(query)?;
        let mut scores = vec![0.0; self.rows];
        let mut rest = &mut scores[..];
        let mut parts = Vec::new();
        for (_, rows) in self.blocks() {
            let (part, after) = rest.split_at_mut(rows.len() / self.dimension);
            parts.push((rows, part));
            rest = after;
        }
        parts
            .into_par_iter()
            .with_min_len(4)
            .for_each(|(rows, out)| inner_products(query, rows, self.dimension, out));
        Ok(scores)
    }

    /// Writes the index to one file, aside first and then into place.
    ///
    /// The file is 8 bytes of magic, the dimension and the number of reserved bytes that follow
    /// (0) as little-endian u32, then the rows as little-endian f32.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), RetrievalError> {
        let write = || {
            let aside = path.with_extension("part");
            let mut file = std::io::BufWriter::new(File::create(&aside)?);
            file.write_all(&MAGIC)?;
            file.write_all(&(self.dimension as u32).to_le_bytes())?;
            file.write_all(&0u32.to_le_bytes())?;
            for segment in &self.segments {
                file.write_all(bytemuck::cast_slice(segment.vectors(self.dimension)))?;
            }
            file.into_inner().map_err(|e| e.into_error())?.sync_all()?;
            fs::rename(&aside, path)
        };
        write().map_err(|source| RetrievalError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// Maps an index from its file into memory. Rows that were not wholly written are left out.
    ///
    /// The file must not be changed in place while it is mapped; [`Self::save`] replaces it, which
    /// leaves an open index as it was.
    ///
    /// # Errors
    /// When the file cannot be read or is not an index.
    pub fn open(path: &Path) -> Result<Self, RetrievalError> {
        let io = |source| RetrievalError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() < HEADER as u64 {
            return Err(RetrievalError::NotAnIndex(path.to_owned()));
        }
        // SAFETY: the program only ever replaces index files; the documentation forbids others to
        // change them in place.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        let dimension = map
            .get(8..12)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, |bytes| u32::from_le_bytes(bytes) as usize);
        if !map.starts_with(&MAGIC) || dimension == 0 {
            return Err(RetrievalError::NotAnIndex(path.to_owned()));
        }
        let rows = (map.len() - HEADER) / (dimension * 4);
        let segments = vec![Arc::new(Segment::Mapped { map, rows })];
        Ok(Self {
            dimension,
            segments,
            rows,
        })
    }

    /// The rows in blocks, each with the number of its first row.
    fn blocks(&self) -> Vec<(u32, &[f32])> {
        let mut first = 0;
        let mut blocks = Vec::new();
        for segment in &self.segments {
            for block in segment
                .vectors(self.dimension)
                .chunks(BLOCK * self.dimension)
            {
                blocks.push((first, block));
                first += (block.len() / self.dimension) as u32;
            }
        }
        blocks
    }

    fn one(&self, query: &[f32]) -> Result<(), RetrievalError> {
        self.check(query)?;
        if query.len() == self.dimension {
            return Ok(());
        }
        Err(RetrievalError::Dimension {
            expected: self.dimension,
            found: query.len(),
        })
    }

    fn check(&self, vectors: &[f32]) -> Result<(), RetrievalError> {
        if !vectors.len().is_multiple_of(self.dimension) {
            return Err(RetrievalError::Dimension {
                expected: self.dimension,
                found: vectors.len(),
            });
        }
        match vectors.iter().position(|x| !x.is_finite()) {
            Some(at) => Err(RetrievalError::NotANumber {
                row: (at / self.dimension) as u32,
            }),
            None => Ok(()),
        }
    }
}

/// The best `n` of what it was offered.
struct Kept {
    n: usize,
    keys: Vec<u64>,
    /// The worst key still worth keeping.
    bound: u64,
}

impl Kept {
    fn new(n: usize) -> Self {
        Self {
            n,
            keys: Vec::new(),
            bound: if n == 0 { 0 } else { u64::MAX },
        }
    }

    fn offer(&mut self, scores: impl Iterator<Item = (u32, f32)>) {
        for (row, score) in scores {
            let key = key(row, score);
            if key < self.bound {
                self.keys.push(key);
                if self.keys.len() >= 2 * self.n + 64 {
                    self.prune();
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.prune();
    }

    fn prune(&mut self) {
        if self.n > 0 && self.keys.len() > self.n {
            let (_, &mut bound, _) = self.keys.select_nth_unstable(self.n - 1);
            self.bound = bound;
            self.keys.truncate(self.n);
        }
    }

    fn into_sorted(mut self) -> Vec<Scored> {
        self.prune();
        self.keys.sort_unstable();
        self.keys.into_iter().map(scored).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::best;

    fn index(rows: &[[f32; 3]]) -> VectorIndex {
        let mut index = VectorIndex::new(3);
        for row in rows {
            index.append(row).expect("finite");
        }
        index
    }

    proptest! {
        #[test]
        fn many_equals_one_at_a_time_equals_sorting_everything(
            // Few distinct values, so that ties are common.
            rows in prop::collection::vec([-1i8..2, -1i8..2, -1i8..2].prop_map(|r| r.map(f32::from)), 0..1300),
            queries in prop::collection::vec([-1f32..1.0, -1f32..1.0, -1f32..1.0], 0..4),
            n in 0usize..200,
        ) {
            let index = index(&rows);
            let many = index.top_many(queries.as_flattened(), n).expect("finite");
            prop_assert_eq!(many.len(), queries.len());
            for (query, top) in queries.iter().zip(&many) {
                prop_assert_eq!(&index.top(query, n).expect("finite"), top);
                let scores = index.scores(query).expect("finite");
                prop_assert_eq!(&best(&scores, n).expect("finite"), top);
            }
        }
    }

    #[test]
    fn a_saved_index_is_the_same_and_grows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("index");
        let mut built = index(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
        built.save(&path).expect("saved");
        let mut opened = VectorIndex::open(&path).expect("opened");
        let snapshot = opened.clone();
        for index in [&mut built, &mut opened] {
            index.append(&[0.0, 0.9, 0.1]).expect("finite");
        }
        let query = [0.1, 1.0, 0.2];
        assert_eq!(
            built.top(&query, 3).expect("finite"),
            opened.top(&query, 3).expect("finite")
        );
        assert_eq!((snapshot.len(), opened.len()), (2, 3));
        assert_eq!(opened.row(2), Some(&[0.0, 0.9, 0.1][..]));
        assert_eq!(opened.row(3), None);

        // A row that was not wholly written is not there.
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 5]).expect("written");
        assert_eq!(VectorIndex::open(&path).expect("opened").len(), 1);
        fs::write(&path, b"something else entirely").expect("written");
        assert!(matches!(
            VectorIndex::open(&path),
            Err(RetrievalError::NotAnIndex(_))
        ));
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        let mut index = index(&[[1.0, 0.0, 0.0]]);
        assert!(matches!(
            index.append(&[f32::NAN, 0.0, 0.0]),
            Err(RetrievalError::NotANumber { row: 0 })
        ));
        assert!(matches!(
            index.append(&[1.0]),
            Err(RetrievalError::Dimension {
                expected: 3,
                found: 1
            })
        ));
        assert!(index.top(&[f32::INFINITY, 0.0, 0.0], 1).is_err());
        assert_eq!(index.len(), 1);
    }
}
