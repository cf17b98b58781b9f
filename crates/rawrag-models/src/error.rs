use std::path::PathBuf;

/// Why a model could not be loaded or could not compute.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file of the model could not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A JSON file of the model is not what its format demands.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What was found, with line and column.
        source: serde_json::Error,
    },
    /// A setting of the model is one that this program does not compute.
    #[error("{}: field `{field}` is {found}; supported: {supported}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The setting's name.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values that are supported.
        supported: &'static str,
    },
    /// The weights file is damaged, or is not the safetensors format.
    #[error("{}: not a valid safetensors file ({reason}); fetch the model again", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A tensor is absent, or has another type or shape than the model's settings imply.
    #[error("{}: tensor `{tensor}`: {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// The matrix product refused its arguments or gave a value that is not a number.
    #[error("model `{name}`: {reason}")]
    Compute {
        /// The model's name.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// A model behind a service did not do what it was asked.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] crate::remote::RemoteError),
}
