use std::error::Error;
use std::io;
use std::process::ExitCode;

use crate::corpus::LoadError;
use crate::corpus::synthetic::WriteError;
use crate::experiment::ExperimentError;
use crate::models::{ModelError, store};
use crate::pipeline::PipelineError;
use crate::records::RecordError;
use crate::retrieval::{RetrievalError, StoreError};

use rawrag_baselines::SystemError;
use rawrag_import::command::CommandError;
use rawrag_paper::statistics::StatisticsError;

/// Why the program ends without having done what it was asked.
#[derive(Debug)]
pub(super) enum Failure {
    /// What was asked for makes no sense.
    Usage(String),
    /// Something handed in cannot be used.
    Input(Box<dyn Error>),
    /// A service did not do its part.
    Service(Box<dyn Error>),
    /// The reader of the output went away.
    Silent,
    /// Anything else.
    Other(Box<dyn Error>),
}

impl Failure {
    /// Tells the person what happened, and gives the exit code that says of what kind it is.
    #[expect(
        clippy::print_stderr,
        reason = "this is the program's one error report"
    )]
    pub(super) fn report(self) -> ExitCode {
        let (code, error) = match self {
            Self::Silent => return ExitCode::SUCCESS,
            Self::Usage(text) => (2, text.into()),
            Self::Input(error) => (3, error),
            Self::Service(error) => (4, error),
            Self::Other(error) => (1, error),
        };
        eprintln!("error: {error}");
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            // Many messages already hold their cause.
            if !said.contains(&error.to_string()) {
                eprintln!("  because: {error}");
            }
            said = error.to_string();
            cause = error.source();
        }
        ExitCode::from(code)
    }
}

macro_rules! from {
    ($($error:ty => $kind:ident),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$kind(Box::new(error))
            }
        }
    )*};
}

from! {
    LoadError => Input,
    ExperimentError => Input,
    RecordError => Input,
    StoreError => Input,
    ModelError => Input,
    RetrievalError => Input,
    serde_json::Error => Other,
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::NothingFound => Self::Other(Box::new(error)),
            #[cfg(feature = "remote")]
            PipelineError::Remote(ref remote) if remote.is_service_failure() => {
                Self::Service(Box::new(error))
            }
            #[cfg(feature = "remote")]
            PipelineError::Remote(crate::models::remote::RemoteError::Setting { .. })
            | PipelineError::LimitWithoutPrices => Self::Usage(error.to_string()),
            PipelineError::TooManyFailures { .. } | PipelineError::Ask(_) => {
                Self::Service(Box::new(error))
            }
            PipelineError::System(system) => system.into(),
            #[cfg(feature = "remote")]
            PipelineError::Remote(_) | PipelineError::Stopped => Self::Other(Box::new(error)),
            _ => Self::Input(Box::new(error)),
        }
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        match error {
            SystemError::Held { .. } | SystemError::Occupied { .. } | SystemError::Io(_) => {
                Self::Input(Box::new(error))
            }
            _ => Self::Service(Box::new(error)),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Recipe(_) => Self::Input(Box::new(error)),
            WriteError::Exists(_) => Self::Usage(error.to_string()),
            WriteError::File { .. } => Self::Other(Box::new(error)),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Output(error) => error.into(),
            error if error.is_usage() => Self::Usage(error.to_string()),
            error => Self::Input(Box::new(error)),
        }
    }
}

impl From<StatisticsError> for Failure {
    fn from(error: StatisticsError) -> Self {
        if error.is_usage() {
            Self::Usage(error.to_string())
        } else {
            Self::Input(Box::new(error))
        }
    }
}

impl From<store::StoreError> for Failure {
    fn from(error: store::StoreError) -> Self {
        match error {
            store::StoreError::Pip { .. } | store::StoreError::Hub { .. } => {
                Self::Service(Box::new(error))
            }
            _ => Self::Input(Box::new(error)),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Silent;
        }
        Self::Other(Box::new(error))
    }
}
