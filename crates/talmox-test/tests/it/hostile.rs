//! Proxmox hosts that mistype their answers: one value of one reply at a time, anywhere in what a plan, a preflight and
//! the lines of `check --setup` are made from. Nothing panics, and what comes out can be shown.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use talmox_exec::observe;
use talmox_exec::preflight::{report, setup};
use talmox_plan::{Nonce, Request, check, plan};
use talmox_pve::client::{
    BoxFuture, Client, Entropy as _, HttpRequest, HttpResponse, RetryPolicy, Settings, Target, Transport,
    TransportError,
};
use talmox_test::Seeded;
use talmox_types::is_hidden;

use crate::preflight::bed::{Bed, small};

const WORDS: [&str; 5] = [
    "\u{1b}[2J\u{1b}]0;pwned\u{7}",
    "$(touch pwned)\ntouch pwned",
    "';`touch pwned`;'",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}",
    "../../../etc/passwd",
];

/// Changes one reply of many.
struct Mistyping {
    inner: Arc<dyn Transport>,
    /// Which: counted from 0.
    at: u64,
    asked: Arc<AtomicU64>,
    dice: Seeded,
}

impl Transport for Mistyping {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            let mut response = self.inner.send(target, request).await?;
            if self.asked.fetch_add(1, Ordering::SeqCst) == self.at
                && let Ok(mut whole) = serde_json::from_slice::<Value>(&response.body)
                && let Some(data) = whole.get_mut("data")
            {
                mistype(data, &self.dice);
                response.body = whole.to_string().into();
            }
            Ok(response)
        })
    }
}

fn below(dice: &Seeded, bound: usize) -> usize {
    usize::try_from(dice.next() % bound.max(1) as u64).unwrap()
}

fn replacement(dice: &Seeded) -> Value {
    let all = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(""),
        json!("18446744073709551615"),
        json!("-9223372036854775808"),
        json!("9999999T"),
        json!("a=b,c=d,e"),
        json!("x".repeat(10_000)),
        json!([]),
        json!({}),
        json!([[], {}, null]),
        json!(WORDS[below(dice, WORDS.len())]),
        json!(WORDS[below(dice, WORDS.len())]),
    ];
    all[below(dice, all.len())].clone()
}

/// Replaces one value anywhere in the tree.
fn mistype(value: &mut Value, dice: &Seeded) {
    let inside = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if inside == 0 || below(dice, 12) == 0 {
        *value = replacement(dice);
        return;
    }
    let at = below(dice, inside);
    match value {
        Value::Array(items) => mistype(&mut items[at], dice),
        Value::Object(fields) => {
            if let Some(inner) = fields.values_mut().nth(at) {
                mistype(inner, dice);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A client some of whose replies are mistyped, and how many there were.
fn client(bed: &Bed, at: u64, seed: u64) -> (Client, Arc<AtomicU64>) {
    let asked = Arc::<AtomicU64>::default();
    let counter = Arc::clone(&asked);
    let settings = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
    let dice = Seeded::new(seed);
    let client = bed.lab.client_over(&bed.root_credentials(), settings, |inner| {
        Arc::new(Mistyping { inner, at, asked: counter, dice })
    });
    (client, asked)
}

fn told(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Everything that is made from what the hosts say. Whether all of it was read.
async fn work(bed: &Bed, client: &Client) -> bool {
    let desired = small();
    let facts = bed.facts(&desired, client).await;
    let _ = report(&desired, &facts);
    let lines = setup(&desired, &facts, &bed.account());
    assert!(!lines.contains(|c: char| is_hidden(c) && c != '\n'), "{lines:?}");
    let observed = match observe(client, &desired).await {
        Ok(observed) => observed,
        Err(error) => {
            let words = told(&error);
            assert!(!words.contains(|c: char| is_hidden(c) && c != '\n'), "{words:?}");
            assert!(!error.hints().concat().contains(is_hidden), "{:?}", error.hints());
            return false;
        }
    };
    let request = Request::default();
    let planned = plan(&desired, &observed, &request, &Nonce::new(1));
    let _ = check(&planned, &desired, &observed, &request);
    true
}

#[tokio::test(start_paused = true)]
async fn one_mistyped_value_is_read_or_refused() {
    let bed = Bed::new("9.2", |_| {}).await;
    bed.live_a_little(&bed.root()).await;
    let (untouched, asked) = client(&bed, u64::MAX, 0);
    assert!(work(&bed, &untouched).await, "the bed is as it should be");
    let calls = asked.load(Ordering::SeqCst);
    assert!(calls > 20, "{calls}");
    let (mut read, mut refused) = (0, 0);
    for seed in 0..600 {
        let (client, _) = client(&bed, seed % calls, seed);
        if work(&bed, &client).await {
            read += 1;
        } else {
            refused += 1;
        }
    }
    // Most of what is asked is for the preflight, which tells what could not be read and goes on.
    assert!(read > 60 && refused > 10, "{read} read, {refused} refused");
}
