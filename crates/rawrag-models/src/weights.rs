//! A model folder's `config.json` and its memory-mapped `model.safetensors`.

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::Metadata};
use serde::Deserialize;

use crate::{ModelError, tokenizer::WordPiece};

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian and are mapped as they are");

/// Opens the three files of a model in `dir` that reads inputs of up to `pieces` word-pieces, and
/// checks that they fit together.
pub(crate) fn open(dir: &Path, pieces: usize) -> Result<(Config, WordPiece, Weights), ModelError> {
    let config_path = dir.join("config.json");
    let config = Config::load(&config_path)?;
    let tokenizer = WordPiece::load(&dir.join("tokenizer.json"))?;
    if tokenizer.size() > config.vocab_size {
        return Err(ModelError::Setting {
            path: config_path,
            field: "vocab_size",
            found: config.vocab_size.to_string(),
            supported: "at least the vocabulary of tokenizer.json",
        });
    }
    if pieces > config.max_position_embeddings {
        return Err(ModelError::Setting {
            path: config_path,
            field: "max_position_embeddings",
            found: config.max_position_embeddings.to_string(),
            supported: "at least the word-pieces that the model reads",
        });
    }
    Ok((
        config,
        tokenizer,
        Weights::open(&dir.join("model.safetensors"))?,
    ))
}

/// Sizes and settings of a BERT model.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) type_vocab_size: usize,
    pub(crate) vocab_size: usize,
    pub(crate) layer_norm_eps: f32,
    model_type: String,
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn absolute() -> String {
    "absolute".into()
}

impl Config {
    /// Reads `config.json` and refuses what [`crate::bert`] does not compute.
    pub(crate) fn load(path: &Path) -> Result<Self, ModelError> {
        let file = File::open(path).map_err(|source| ModelError::Read {
            path: path.into(),
            source,
        })?;
        let config: Self =
            serde_json::from_reader(std::io::BufReader::new(file)).map_err(|source| {
                ModelError::Json {
                    path: path.into(),
                    source,
                }
            })?;
        let refuse = |field, found: String, supported| {
            Err(ModelError::Setting {
                path: path.into(),
                field,
                found,
                supported,
            })
        };
        if config.model_type != "bert" {
            return refuse("model_type", config.model_type, "bert");
        }
        if config.hidden_act != "gelu" {
            return refuse("hidden_act", config.hidden_act, "gelu");
        }
        if config.position_embedding_type != "absolute" {
            return refuse(
                "position_embedding_type",
                config.position_embedding_type,
                "absolute",
            );
        }
        let heads = config.num_attention_heads;
        if heads == 0 || config.hidden_size == 0 || !config.hidden_size.is_multiple_of(heads) {
            return refuse(
                "num_attention_heads",
                heads.to_string(),
                "a divisor of `hidden_size`",
            );
        }
        if config.type_vocab_size < 2 {
            return refuse(
                "type_vocab_size",
                config.type_vocab_size.to_string(),
                "2 or more",
            );
        }
        Ok(config)
    }
}

/// A memory-mapped safetensors file.
pub(crate) struct Weights {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    /// Where the tensors' bytes begin, counted from the start of the file.
    data: usize,
}

impl Weights {
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let read = |source| ModelError::Read {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(read)?;
        // SAFETY: the mapping is private and read-only. Another process that truncates the file
        // while it is in use can still end this one; the store never does, it renames whole files
        // into place.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let (header, metadata) =
            SafeTensors::read_metadata(&map).map_err(|e| ModelError::Weights {
                path: path.into(),
                reason: e.to_string(),
            })?;
        // The format opens with the header's length as eight bytes.
        Ok(Self {
            path: path.into(),
            map,
            metadata,
            data: 8 + header,
        })
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Finds the f32 tensor `name` of shape `shape`.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        let refuse = |reason: String| {
            Err(ModelError::Tensor {
                path: self.path.clone(),
                tensor: name.into(),
                reason,
            })
        };
        let Some(info) = self.metadata.info(name) else {
            return refuse("is absent from the file".into());
        };
        if info.dtype != Dtype::F32 {
            return refuse(format!("is stored as {:?}, not as F32", info.dtype));
        }
        if info.shape != shape {
            return refuse(format!(
                "has the shape {:?}, but config.json implies {shape:?}",
                info.shape
            ));
        }
        let range = self.data + info.data_offsets.0..self.data + info.data_offsets.1;
        let bytes = self.map.get(range.clone());
        if bytes.is_none_or(|bytes| bytemuck::try_cast_slice::<u8, f32>(bytes).is_err()) {
            return refuse("does not lie at a multiple of four bytes".into());
        }
        Ok(Tensor(range))
    }

    /// The values of `tensor`, row-major, where they are mapped.
    pub(crate) fn values(&self, tensor: &Tensor) -> &[f32] {
        bytemuck::cast_slice(&self.map[tensor.0.clone()])
    }
}

/// Where a tensor lies in the file that it was found in: within it, and aligned for f32.
pub(crate) struct Tensor(Range<usize>);
