//! Nothing secret shows in what is logged, printed or debugged.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use talmox_pve::client::{Params, Settings};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::client::fake::{
    Fake, SECRET, bare_refusal, data, lost_reply, password, refusal, refused_connection, token,
};

/// Writes down every event and span with all its fields.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = writeln!(self.0.lock().unwrap(), "{}={value:?}", field.name());
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn no_secret_leaves_but_on_the_wire() {
    let written = Everything::default();
    // For the whole process: what the other tests do meanwhile must not be logged with secrets either.
    tracing::subscriber::set_global_default(written.clone()).unwrap();
    let ticket = r#"{"ticket":"PVE:root@pam:tickettext","CSRFPreventionToken":"csrftext"}"#;
    for credentials in [token(), password()] {
        let failures = [
            refused_connection(),
            lost_reply(),
            bare_refusal(401, "no"),
            refusal(500, "VM is locked (x)"),
            data("[]"),
        ];
        for failure in failures {
            let login = credentials.is_password().then(|| data(ticket));
            let fake = Fake::new(login.into_iter().chain([failure]));
            let client = fake.client_of(&["pve1"], &credentials, Settings::default());
            let params = Params::new().with("cipassword", "hunter2");
            let error = client.post::<String>("/nodes/pve1/qemu", params.clone()).await.unwrap_err();
            let _ =
                write!(written.0.lock().unwrap(), "{error} {error:?} {client:?} {credentials:?} {params:?}");
            let _ = write!(written.0.lock().unwrap(), "{:?}", error.hints());
        }
    }
    let written = written.0.lock().unwrap();
    assert!(
        written.contains("request=POST /api2/json/access/ticket"),
        "the log was not captured:\n{written}"
    );
    for secret in [SECRET, "hunter2", "tickettext", "csrftext"] {
        assert!(!written.contains(secret), "{secret} in:\n{written}");
    }
}
