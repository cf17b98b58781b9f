//! `conversations.json` of a ChatGPT export: an array of conversations, each a tree of messages.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Entry;
use super::elements::Place;
use super::sessions::Sessions;
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{Conversation, ConversationId, Message, MessageId, Timestamp};

#[derive(Deserialize)]
struct Export<'a> {
    conversation_id: Option<String>,
    id: Option<String>,
    current_node: Option<String>,
    #[serde(borrow)]
    mapping: Nodes<'a>,
}

/// The tree's nodes by id.
struct Nodes<'a>(HashMap<String, Node<'a>>);

#[derive(Deserialize)]
struct Node<'a> {
    parent: Option<String>,
    #[serde(default)]
    children: Vec<String>,
    #[serde(borrow)]
    message: Option<Utterance<'a>>,
}

#[derive(Deserialize)]
struct Utterance<'a> {
    id: Option<String>,
    author: Author,
    create_time: Option<f64>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    recipient: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Author {
    role: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    content_type: String,
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Metadata {
    is_visually_hidden_from_conversation: Option<bool>,
}

/// A part that is an object.
#[derive(Deserialize)]
struct Part {
    content_type: Option<String>,
    text: Option<String>,
}

/// Reads one conversation; `None` where no message is left of it.
pub(super) fn entry(
    json: &str,
    element: &Place<'_>,
    notes: &mut Notes,
) -> Result<Option<Entry>, LoadError> {
    let export: Export<'_> = element.parse(json)?;
    let id = export.conversation_id.or(export.id).unwrap_or_else(|| {
        let id = element.name.replace("element ", "conversation-");
        notes.add(Oddity::IdMissing, || id.clone());
        id
    });
    let place = element.named(format!("conversation {id}"));
    let Nodes(mut nodes) = export.mapping;
    let branch = branch(&nodes, export.current_node, &id, &place, notes)?;
    let mut sessions = Sessions::default();
    for node_id in branch {
        let Some(utterance) = nodes.remove(&node_id).and_then(|node| node.message) else {
            continue;
        };
        let at = format!("{id} {node_id}");
        if let Some(text) = spoken(&utterance, &at, notes) {
            let field = format!("mapping.{node_id}.message.create_time");
            let date = utterance
                .create_time
                .map(Timestamp::from_unix)
                .transpose()
                .map_err(|e| place.error(&field, e.to_string(), "give seconds, or null"))?;
            if date.is_none() {
                notes.add(Oddity::DateMissing, || at);
            }
            sessions.push(None, date, |_, _| Message {
                id: MessageId::from(utterance.id.unwrap_or(node_id)),
                speaker: utterance.author.name.unwrap_or(utterance.author.role),
                text,
                captions: Vec::new(),
                date,
            });
        }
    }
    for (node_id, _) in sorted_messages(&nodes) {
        notes.add(Oddity::MessageOnOtherBranch, || format!("{id} {node_id}"));
    }
    let sessions = sessions.finish();
    if sessions.is_empty() {
        notes.add(Oddity::ConversationEmpty, || id);
        return Ok(None);
    }
    let conversation = Conversation {
        id: ConversationId::from(id),
        sessions,
    };
    Ok(Some(Entry {
        conversation,
        questions: Vec::new(),
    }))
}

/// The ids of the nodes from the root to the current node.
fn branch(
    nodes: &HashMap<String, Node<'_>>,
    current: Option<String>,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Vec<String>, LoadError> {
    let broken = |field: String, problem: String| {
        place.error(
            &field,
            problem,
            "the tree is damaged: export the history again",
        )
    };
    let mut next = match current {
        Some(current) if !nodes.contains_key(&current) => {
            return Err(broken(
                "current_node".into(),
                format!("no node is called {current:?}"),
            ));
        }
        Some(current) => Some(current),
        None => {
            notes.add(Oddity::BranchUnmarked, || id.to_owned());
            last_leaf(nodes)
        }
    };
    let mut branch = Vec::new();
    while let Some(node_id) = next {
        let Some(node) = nodes.get(&node_id) else {
            let child = branch.last().cloned().unwrap_or_default();
            let problem = format!("no node is called {node_id:?}");
            return Err(broken(format!("mapping.{child}.parent"), problem));
        };
        if branch.len() == nodes.len() {
            let problem = "the node is its own ancestor".to_owned();
            return Err(broken(format!("mapping.{node_id}.parent"), problem));
        }
        next = node.parent.clone();
        branch.push(node_id);
    }
    branch.reverse();
    Ok(branch)
}

/// The leaf at the end of the last child of each node from the root on.
fn last_leaf(nodes: &HashMap<String, Node<'_>>) -> Option<String> {
    let (mut leaf, mut node) = nodes
        .iter()
        .filter(|(_, node)| node.parent.is_none())
        .min_by_key(|(id, _)| *id)?;
    // A node reached more often than there are nodes means a cycle, which the way back names.
    for _ in 0..nodes.len() {
        match node
            .children
            .last()
            .and_then(|child| nodes.get_key_value(child))
        {
            Some(child) => (leaf, node) = child,
            None => break,
        }
    }
    Some(leaf.clone())
}

fn sorted_messages<'n, 'a>(
    nodes: &'n HashMap<String, Node<'a>>,
) -> std::collections::BTreeMap<&'n str, &'n Utterance<'a>> {
    nodes
        .iter()
        .filter_map(|(id, node)| Some((id.as_str(), node.message.as_ref()?)))
        .collect()
}

/// What a person or the assistant said; `None`, and a note, for everything else in the tree.
fn spoken(utterance: &Utterance<'_>, at: &str, notes: &mut Notes) -> Option<String> {
    let content = utterance.content.as_ref();
    let content_type = content.map_or("", |c| c.content_type.as_str());
    let hidden = utterance
        .metadata
        .as_ref()
        .is_some_and(|m| m.is_visually_hidden_from_conversation == Some(true));
    let to_a_tool = utterance.recipient.as_deref().is_some_and(|r| r != "all");
    let left_out = match utterance.author.role.as_str() {
        "user" | "assistant" if hidden => Some(Oddity::MessageOfSystem),
        "user" | "assistant" => match content_type {
            "user_editable_context" | "model_editable_context" => Some(Oddity::MessageOfSystem),
            "thoughts" | "reasoning_recap" => Some(Oddity::MessageOfTool),
            _ if to_a_tool => Some(Oddity::MessageOfTool),
            _ => None,
        },
        "tool" => Some(Oddity::MessageOfTool),
        _ => Some(Oddity::MessageOfSystem),
    };
    if let Some(oddity) = left_out {
        notes.add(oddity, || at.to_owned());
        return None;
    }
    let text = content
        .map(|content| text(content, at, notes))
        .unwrap_or_default();
    if text.trim().is_empty() {
        notes.add(Oddity::MessageWithoutText, || at.to_owned());
        return None;
    }
    Some(text)
}

/// The parts that are text, one below the other.
fn text(content: &Content<'_>, at: &str, notes: &mut Notes) -> String {
    let mut texts = Vec::new();
    for raw in content.text.iter().chain(content.parts.iter().flatten()) {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            texts.push(text);
            continue;
        }
        let part = serde_json::from_str::<Part>(raw.get()).ok();
        let (kind, text) = part.map_or((None, None), |part| (part.content_type, part.text));
        match text {
            Some(text) => texts.push(text),
            None => notes.add_detail(Oddity::PartNotText, || (at.to_owned(), kind)),
        }
    }
    texts.join("\n")
}

impl<'de: 'a, 'a> Deserialize<'de> for Nodes<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Nodes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of nodes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Nodes<'de>, A::Error> {
                let mut nodes = HashMap::new();
                while let Some((key, node)) = map.next_entry::<String, Node<'de>>()? {
                    if nodes.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
                    }
                    nodes.insert(key, node);
                }
                Ok(Nodes(nodes))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
