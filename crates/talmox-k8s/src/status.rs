//! What the API says about a request it did not carry out.

use std::fmt;

use serde::Deserialize;
use talmox_types::excerpt;

/// Kubernetes' own object for failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// The code of HTTP.
    pub code: u16,
    /// One word for programs: `NotFound`, `Conflict`, `TooManyRequests`.
    #[serde(deserialize_with = "crate::api::or_default")]
    pub reason: String,
    #[serde(deserialize_with = "crate::api::or_default")]
    pub message: String,
    #[serde(deserialize_with = "crate::api::or_default")]
    pub details: Details,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    #[serde(deserialize_with = "crate::api::or_default")]
    pub causes: Vec<StatusCause>,
    /// 0: not said.
    pub retry_after_seconds: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// `DisruptionBudget`, `FieldManagerConflict`, `FieldValueInvalid`.
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// How much of a body that is no status is worth showing.
const EXCERPT: usize = 300;
/// More causes than a server has ever named for one refusal.
const MOST_CAUSES: usize = 100;

impl Status {
    /// The failure inside a reply whose code says success.
    pub(crate) fn read_failure(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Outcome {
            status: String,
        }
        let failed = serde_json::from_slice::<Outcome>(body).is_ok_and(|one| one.status == "Failure");
        failed.then(|| serde_json::from_slice(body).ok()).flatten()
    }

    /// From a reply that is a failure; what is no `Status` object is taken by its code and first words.
    pub(crate) fn read(code: u16, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let is_status = serde_json::from_slice::<Kind>(body).is_ok_and(|one| one.kind == "Status");
        match serde_json::from_slice::<Self>(body) {
            Ok(status) if is_status => Self { code, ..status },
            _ => {
                let first = body.get(..EXCERPT * 4).unwrap_or(body);
                let text: String = String::from_utf8_lossy(first).chars().take(EXCERPT).collect();
                Self { code, message: text.trim().to_owned(), ..Self::default() }
            }
        }
    }

    /// The same with texts that may be shown.
    pub(crate) fn shown(self) -> Self {
        let Self { code, reason, message, details } = self;
        let causes = details.causes.into_iter().take(MOST_CAUSES).map(|cause| StatusCause {
            reason: excerpt(&cause.reason),
            message: excerpt(&cause.message),
            field: excerpt(&cause.field),
        });
        let details = Details { causes: causes.collect(), ..details };
        Self { code, reason: excerpt(&reason), message: excerpt(&message), details }
    }

    /// The budget that does not allow an eviction. The name is nowhere but in the sentence of the cause.
    pub fn disruption_budget(&self) -> Option<&str> {
        let cause = self.details.causes.iter().find(|cause| cause.reason == "DisruptionBudget")?;
        cause.message.strip_prefix("The disruption budget ")?.split_whitespace().next()
    }

    /// The fields that somebody else owns, with whose they are, of an apply that was refused for it.
    pub fn conflicts(&self) -> impl Iterator<Item = (&str, &str)> {
        let causes = self.details.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
        causes.map(|cause| (cause.field.as_str(), cause.message.as_str()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "status {}", self.code)?,
            message => f.write_str(message)?,
        }
        if let Some(cause) = self.details.causes.iter().find(|cause| cause.reason == "DisruptionBudget") {
            write!(f, " {}", cause.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_its_causes() {
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests",
            "details":{"causes":[{"reason":"DisruptionBudget",
            "message":"The disruption budget web needs 2 healthy pods and has 2 currently"}]},"code":429}"#;
        let status = Status::read(429, body.as_bytes());
        assert_eq!(status.disruption_budget(), Some("web"));
        assert_eq!(
            status.to_string(),
            "Cannot evict pod as it would violate the pod's disruption budget. \
             The disruption budget web needs 2 healthy pods and has 2 currently"
        );
    }

    #[test]
    fn what_is_no_status_is_its_code_and_words() {
        let status = Status::read(500, b"[+]ping ok\n[-]etcd failed: reason withheld\n");
        assert_eq!(
            (status.code, status.message.as_str()),
            (500, "[+]ping ok\n[-]etcd failed: reason withheld")
        );
        assert_eq!(Status::read(502, b"").to_string(), "status 502");
        assert_eq!(Status::read(404, br#"{"kind":"Node","message":"x"}"#).reason, "");
    }
}
