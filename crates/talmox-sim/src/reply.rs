//! What a handler answers, and how errors become replies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::schema::Errors;
use crate::wire::Reply;

/// A handler's failure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApiError {
    /// 400 with a reason per parameter.
    Parameter(Errors),
    /// 403; the text in brackets, if there is one.
    Permission(Option<String>),
    /// 500 with a text.
    Plain(String),
    /// Any other status; the message has no line feed.
    Status(u16, String),
    /// A status of the hop to another host, after so many milliseconds: no body.
    Hop { status: u16, text: String, delay: u64 },
}

pub(crate) type Answer = Result<Value, ApiError>;

impl ApiError {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::Plain(text.into())
    }

    pub(crate) fn parameter(name: &str, reason: impl Into<String>) -> Self {
        Self::Parameter(BTreeMap::from([(name.to_owned(), reason.into())]))
    }

    /// The text of the error as a task or another error's text shows it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Parameter(errors) => {
                let lines = errors.iter().map(|(name, reason)| format!("{name}: {reason}\n"));
                format!("400 Parameter verification failed.\n{}", lines.collect::<String>())
            }
            Self::Permission(detail) => format!("403 {}", permission_text(detail.as_deref())),
            Self::Plain(text) | Self::Status(_, text) | Self::Hop { text, .. } => text.clone(),
        }
    }

    pub(crate) fn reply(&self) -> Reply {
        match self {
            Self::Parameter(errors) => {
                let text = "Parameter verification failed.\n";
                Reply::json(400, text, &json!({"data": null, "message": text, "errors": errors}))
            }
            Self::Permission(detail) => message(403, &format!("{}\n", permission_text(detail.as_deref()))),
            Self::Plain(text) => message(500, &format!("{}\n", text.trim_end_matches('\n'))),
            Self::Status(status, text) => message(*status, text),
            Self::Hop { status, text, delay } => Reply { delay: *delay, ..Reply::plain(*status, text, "") },
        }
    }
}

fn permission_text(detail: Option<&str>) -> String {
    detail.map_or_else(
        || "Permission check failed".into(),
        |detail| format!("Permission check failed ({detail})"),
    )
}

fn message(status: u16, text: &str) -> Reply {
    Reply::json(status, text, &json!({"data": null, "message": text}))
}

/// A good answer; lists that count carry `total` beside the data.
pub(crate) fn success(mut data: Value) -> Reply {
    let total = data.as_object_mut().and_then(|map| map.remove(TOTAL));
    let data = if total.is_some() { data["data"].take() } else { data };
    let mut body = Map::from_iter([("data".to_owned(), data)]);
    body.extend(total.map(|total| ("total".to_owned(), total)));
    Reply::json(200, "OK", &Value::Object(body))
}

const TOTAL: &str = "\u{0}total";

/// Data with a count of all there is, of which it may be a part.
pub(crate) fn with_total(data: &Value, total: usize) -> Value {
    json!({"data": data, TOTAL: total})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_first_line_of_the_message() {
        let reply = ApiError::plain("first\nsecond\n").reply();
        assert_eq!((reply.status, reply.reason.as_str()), (500, "first"));
        assert_eq!(reply.body, br#"{"data":null,"message":"first\nsecond\n"}"#);
    }

    #[test]
    fn totals_stand_beside_the_data() {
        assert_eq!(success(with_total(&json!([1]), 7)).body, br#"{"data":[1],"total":7}"#);
        assert_eq!(success(Value::Null).body, br#"{"data":null}"#);
    }
}
