//! The section of an experiment that names a memory system: `[memory]`.

use rawrag_baselines::known;
use rawrag_baselines::managed::MANAGED;
use rawrag_baselines::native::NAMED;
use rawrag_baselines::protocol::Models;
use serde::{Deserialize, Serialize};

/// A memory system and how it is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// A native system's name, or that of a wrapped one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// In place of a name, the command that starts a wrapper, from the working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// In place of either, where a system listens that speaks the wrapper protocol over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How many items a search asks for, of each identity that the system searches; at least 1.
    #[serde(default = "twenty")]
    pub k: usize,
    /// Whether each message is added by itself and waited for, in place of the system's own units:
    /// the sequential ingestion of Raw-RAG's Figure 1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_by_one: bool,
    /// Only these conversations; all of them if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversations: Vec<String>,
    /// The system's own settings.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// The service of its models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Models>,
    /// What a wrapper may take.
    #[serde(default)]
    pub limits: Ceilings,
}

/// What a wrapper may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ceilings {
    /// Seconds that a call may take, at least 1.
    pub seconds: u64,
    /// MiB of address space.
    pub memory_mib: u64,
}

impl Default for Ceilings {
    /// Ten minutes a call, 8 GiB.
    fn default() -> Self {
        Self {
            seconds: 600,
            memory_mib: 8 * 1024,
        }
    }
}

#[cfg(unix)]
impl Ceilings {
    /// As the launch of a wrapper takes them.
    pub fn limits(self) -> rawrag_baselines::Limits {
        rawrag_baselines::Limits {
            call: std::time::Duration::from_secs(self.seconds),
            memory_mib: self.memory_mib,
        }
    }
}

impl Memory {
    /// Whether finding nothing is what the system is for.
    pub fn is_floor(&self) -> bool {
        self.system.as_deref() == Some("abstain")
    }

    /// The most items that a search can return: k of a native system, and without a limit known
    /// here of others, which may search several identities for k each.
    pub(crate) fn most_items(&self) -> usize {
        let native = NAMED
            .iter()
            .any(|(name, _)| self.system.as_deref() == Some(name));
        if native { self.k } else { usize::MAX }
    }

    /// Refuses what cannot be run: the field, and what is wrong.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let none = "is 0; it must be at least 1";
        if self.k == 0 {
            return Err(("k", none.to_owned()));
        }
        if self.limits.seconds == 0 {
            return Err(("limits.seconds", none.to_owned()));
        }
        let given = [
            self.system.is_some(),
            !self.command.is_empty(),
            self.address.is_some(),
        ];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let problem = "or `command` or `address` names the system; give exactly one of them";
            return Err(("system", problem.to_owned()));
        }
        if let Some(address) = &self.address
            && !(address.starts_with("http://") || address.starts_with("https://"))
        {
            let problem = format!("is {address:?}; it must begin with http:// or https://");
            return Err(("address", problem));
        }
        let Some(name) = &self.system else {
            return Ok(());
        };
        let mut names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        names.extend(MANAGED.iter().map(|(name, ..)| *name));
        names.extend(known::KNOWN.iter().map(|known| known.name));
        if !names.contains(&name.as_str()) {
            let problem = format!("{name:?} is not known; known are {}", names.join(", "));
            return Err(("system", problem));
        }
        Ok(())
    }
}

fn twenty() -> usize {
    20
}
