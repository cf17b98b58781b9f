use std::time::Duration;

use rawrag_corpus::Timestamp;
use serde::de::DeserializeOwned;

use crate::protocol::{Decided, Done, Exported, Found, Models, Request, Response, VERSION};
use crate::system::{
    Decision, Description, Item, MemorySystem, Namespace, Opened, Said, Stored, SystemError, Usage,
};

/// The longest response, in bytes.
const LONGEST: u64 = 1 << 28;

/// Where a wrapper listens, and what it is told.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where each request is posted.
    pub address: String,
    /// The models that it is told to use.
    pub models: Option<Models>,
    /// The system's own settings.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// How long a call may take.
    pub call: Duration,
}

/// A system that speaks the wrapper protocol over HTTP: each request is posted to one address, and
/// the body of the reply is the response.
///
/// It keeps its conversations where it likes, so `open` names no folder, and whether a namespace is
/// new is for the system to say. A call that fails fails every later one of the conversation.
#[derive(Debug)]
pub struct HttpSystem {
    remote: Remote,
    agent: ureq::Agent,
    description: Description,
    broken: Option<SystemError>,
}

impl HttpSystem {
    /// Asks the system at the address what it is.
    ///
    /// # Errors
    /// When it cannot be reached or answers something else.
    pub fn connect(remote: Remote) -> Result<Self, SystemError> {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(remote.call))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("rawrag/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = agent.into();
        let hello = Request::Hello { protocol: VERSION };
        let description = post(&agent, &remote.address, &hello)?;
        Ok(Self {
            remote,
            agent,
            description,
            broken: None,
        })
    }

    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, SystemError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let outcome = post(&self.agent, &self.remote.address, request);
        if let Err(error @ (SystemError::Unreachable { .. } | SystemError::Contract { .. })) =
            &outcome
        {
            self.broken = Some(error.clone());
        }
        outcome
    }
}

impl MemorySystem for HttpSystem {
    fn description(&self) -> &Description {
        &self.description
    }

    fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError> {
        namespace.check()?;
        if !namespace.fresh && !self.description.capabilities.persistence {
            return Err(SystemError::Unsupported("taking up a closed conversation"));
        }
        self.broken = None;
        let opened: Opened = self.call(&Request::Open {
            namespace: namespace.name.clone(),
            folder: String::new(),
            fresh: namespace.fresh,
            speakers: namespace.speakers.clone(),
            models: self.remote.models.clone(),
            settings: self.remote.settings.clone(),
        })?;
        opened.check(namespace)?;
        Ok(opened)
    }

    fn add(&mut self, unit: &[Said]) -> Result<(), SystemError> {
        let messages = unit.to_vec();
        self.call(&Request::Add { messages }).map(|Done {}| ())
    }

    fn ready(&mut self) -> Result<(), SystemError> {
        self.call(&Request::Ready {}).map(|Done {}| ())
    }

    fn search(
        &mut self,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        let question = question.to_owned();
        let request = Request::Search {
            question,
            k,
            cutoff,
        };
        self.call(&request).map(|Found { items }| items)
    }

    fn export(&mut self) -> Result<Vec<Stored>, SystemError> {
        if !self.description.capabilities.export {
            return Err(SystemError::Unsupported("export"));
        }
        self.call(&Request::Export {})
            .map(|Exported { items }| items)
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, SystemError> {
        if !self.description.capabilities.decisions {
            return Ok(Vec::new());
        }
        self.call(&Request::Decisions {})
            .map(|Decided { decisions }| decisions)
    }

    fn usage(&mut self) -> Result<Usage, SystemError> {
        self.call(&Request::Usage {})
    }

    fn close(&mut self) -> Result<(), SystemError> {
        self.call(&Request::Close {}).map(|Done {}| ())
    }
}

fn post<T: DeserializeOwned>(
    agent: &ureq::Agent,
    address: &str,
    request: &Request,
) -> Result<T, SystemError> {
    let call = request.name();
    let contract = |problem: String| SystemError::Contract { call, problem };
    let unreachable = |reason: String| SystemError::Unreachable {
        call,
        address: address.to_owned(),
        reason,
    };
    let body = serde_json::to_vec(request).map_err(|error| contract(error.to_string()))?;
    let post = agent
        .post(address)
        .header("content-type", "application/json");
    let mut reply = post
        .send(&body[..])
        .map_err(|error| unreachable(error.to_string()))?;
    let status = reply.status();
    let text = reply
        .body_mut()
        .with_config()
        .limit(LONGEST)
        .read_to_string();
    let text = text.map_err(|error| unreachable(error.to_string()))?;
    let shown: String = text.chars().take(120).collect();
    if !status.is_success() {
        return Err(unreachable(format!("status {}: {shown}", status.as_u16())));
    }
    match serde_json::from_str(&text) {
        Ok(Response::Ok(value)) => {
            serde_json::from_value(value).map_err(|error| contract(format!("{error}, in {shown}")))
        }
        Ok(Response::Error(reason)) => Err(SystemError::Refused { call, reason }),
        Err(error) => Err(contract(format!(
            "no response of the protocol ({error}): {shown}"
        ))),
    }
}
