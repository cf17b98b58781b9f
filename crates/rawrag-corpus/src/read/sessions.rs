use crate::{Message, Session, SessionId, Timestamp};

/// Gathers messages into sessions, by the name they give or by calendar day.
#[derive(Default)]
pub(super) struct Sessions(Vec<Session>);

impl Sessions {
    /// Adds the message that `make` makes from its session's id and its ordinal there, from 1.
    ///
    /// Without a name its session is its day. Without a date either, it stays in the session of
    /// the message ahead of it, and before the first date that is `undated`.
    pub(super) fn push(
        &mut self,
        name: Option<String>,
        date: Option<Timestamp>,
        make: impl FnOnce(&SessionId, usize) -> Message,
    ) {
        let name = name
            .or_else(|| Some(date?.local.date().to_string()))
            .map(SessionId::from);
        let continues = self
            .0
            .last()
            .is_some_and(|session| name.as_ref().is_none_or(|name| *name == session.id));
        if !continues {
            let id = name.unwrap_or_else(|| SessionId::from("undated"));
            self.0.push(Session {
                id,
                date: None,
                messages: Vec::new(),
            });
        }
        if let Some(session) = self.0.last_mut() {
            session.date = session.date.or(date);
            session
                .messages
                .push(make(&session.id, session.messages.len() + 1));
        }
    }

    pub(super) fn finish(self) -> Vec<Session> {
        self.0
    }
}
