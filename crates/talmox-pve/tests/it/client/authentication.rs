//! Tokens, tickets, and where they go.

use std::time::Duration;

use serde_json::Value;
use talmox_pve::client::{Client, ClientError, Endpoint, ErrorKind, HttpsTransport, Params, Settings, Trust};

use crate::client::fake::{Answer, Fake, SECRET, Seen, after, bare_refusal, data, password, token, told};

const TICKET: &str =
    r#"{"username":"root@pam","ticket":"PVE:root@pam:one","CSRFPreventionToken":"csrf-one"}"#;
const SECOND_TICKET: &str =
    r#"{"username":"root@pam","ticket":"PVE:root@pam:two","CSRFPreventionToken":"csrf-two"}"#;

async fn write(client: &Client) -> Result<Value, talmox_pve::client::Error> {
    client.post("/pools", Params::new().with("poolid", "p")).await
}

#[tokio::test(start_paused = true)]
async fn a_token_goes_with_every_request() {
    let fake = Fake::new([data("null")]);
    write(&fake.client()).await.unwrap();
    let seen = &fake.seen()[0];
    assert_eq!(seen.headers, [("Authorization".to_owned(), format!("PVEAPIToken=talmox@pve!ci={SECRET}"))]);
    assert_eq!(seen.body, "poolid=p");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_not_tried_again() {
    let fake = Fake::new([bare_refusal(401, "Authentication failed!")]);
    let error = fake.client().version().await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unauthenticated);
    assert_eq!(fake.seen().len(), 1);
    insta::assert_snapshot!(told(&error), @"
    error: https://pve1:8006 does not accept the credentials: Authentication failed!
    hint: a token is USER@REALM!NAME=SECRET; `pveum user token list USER@REALM` shows the names and when each expires, the secret is shown only when the token is made
    ");
}

#[tokio::test(start_paused = true)]
async fn a_password_becomes_a_ticket_with_csrf_for_writes_only() {
    let fake = Fake::new([data(TICKET), data("null"), data("{}")]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    write(&client).await.unwrap();
    client.permissions(None).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen[0].line, "POST /api2/json/access/ticket");
    assert_eq!(seen[0].body, "username=root%40pam&password=hunter2");
    assert!(seen[0].headers.is_empty());
    let cookie = ("Cookie".to_owned(), "PVEAuthCookie=PVE%3Aroot%40pam%3Aone".to_owned());
    assert_eq!(seen[1].headers, [cookie.clone(), ("CSRFPreventionToken".to_owned(), "csrf-one".to_owned())]);
    assert_eq!(seen[2].headers, [cookie]);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_renewed_with_itself_and_in_the_end_with_the_password() {
    let fake = Fake::new([
        data(TICKET),
        data("null"),
        data(SECOND_TICKET),
        data("null"),
        data(TICKET),
        data("null"),
    ]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    write(&client).await.unwrap();
    tokio::time::advance(Duration::from_mins(61)).await;
    write(&client).await.unwrap();
    tokio::time::advance(Duration::from_hours(2)).await;
    write(&client).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen[2].body, "username=root%40pam&password=PVE%3Aroot%40pam%3Aone");
    assert!(seen[3].headers[0].1.ends_with("two"));
    assert_eq!(seen[4].body, "username=root%40pam&password=hunter2");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_refused_is_replaced_once() {
    let fake = Fake::new([
        data(TICKET),
        bare_refusal(401, "permission denied - invalid PVE ticket"),
        data(SECOND_TICKET),
        data("null"),
    ]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    write(&client).await.unwrap();
    assert_eq!(fake.seen().len(), 4);

    let fake = Fake::new([data(TICKET), bare_refusal(401, "no"), data(TICKET), bare_refusal(401, "no")]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    assert_eq!(write(&client).await.unwrap_err().kind(), &ErrorKind::Unauthenticated);
    assert_eq!(fake.seen().len(), 4);
}

/// What is shown after two calls at once on a dead ticket; the first hears of it after ten milliseconds.
async fn two_calls_on_a_dead_ticket(second_hears_after: u64, login: Answer) -> Vec<String> {
    let dead = || bare_refusal(401, "permission denied - invalid PVE ticket");
    let fake = Fake::new([
        data(TICKET),
        data("null"),
        after(10, dead()),
        after(second_hears_after, dead()),
        login,
        data("null"),
        data("null"),
    ]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    write(&client).await.unwrap();
    let (one, two) = tokio::join!(write(&client), write(&client));
    one.unwrap();
    two.unwrap();
    let shown = |seen: &Seen| seen.headers.first().map_or("login".to_owned(), |(_, value)| value.clone());
    fake.seen()[4..].iter().map(shown).collect()
}

const TWO: &str = "PVEAuthCookie=PVE%3Aroot%40pam%3Atwo";

#[tokio::test(start_paused = true)]
async fn a_refusal_while_another_call_logs_in_waits_for_its_ticket() {
    let shown = two_calls_on_a_dead_ticket(15, after(10, data(SECOND_TICKET))).await;
    assert_eq!(shown, ["login", TWO, TWO]);
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_of_the_old_ticket_leaves_the_new_one() {
    let shown = two_calls_on_a_dead_ticket(50, data(SECOND_TICKET)).await;
    assert_eq!(shown, ["login", TWO, TWO]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_refused_falls_back_to_the_password() {
    let fake = Fake::new([
        data(TICKET),
        data("null"),
        bare_refusal(401, "authentication failure"),
        data(SECOND_TICKET),
        data("null"),
    ]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    write(&client).await.unwrap();
    tokio::time::advance(Duration::from_mins(90)).await;
    write(&client).await.unwrap();
    assert_eq!(fake.seen()[3].body, "username=root%40pam&password=hunter2");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_asked_once() {
    let fake = Fake::new([bare_refusal(401, "authentication failure")]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    let error = write(&client).await.unwrap_err();
    assert_eq!((error.kind(), error.words()), (&ErrorKind::Unauthenticated, "authentication failure"));
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_factor_asks_for_a_token() {
    let fake = Fake::new([data(r#"{"ticket":"PVE:!tfa!x","NeedTFA":1}"#)]);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    assert!(write(&client).await.unwrap_err().words().contains("use an API token"));
}

#[tokio::test(start_paused = true)]
async fn many_calls_need_one_login() {
    let mut answers = vec![data(TICKET)];
    answers.extend(std::iter::repeat_with(|| Answer::Slowly(Duration::from_millis(10))).take(3));
    let fake = Fake::new(answers);
    let client = fake.client_of(&["pve1"], &password(), Settings::default());
    let (one, two, three) = tokio::join!(write(&client), write(&client), write(&client));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    let logins = fake.lines().into_iter().filter(|line| line.contains("ticket")).count();
    assert_eq!(logins, 1);
}

#[tokio::test]
async fn a_bound_token_goes_nowhere_else() {
    let home = Endpoint::parse("pve1.example").unwrap();
    let elsewhere = Endpoint::parse("evil.example").unwrap();
    let transport = std::sync::Arc::new(HttpsTransport::new(Trust::Insecure).unwrap());
    let bound = token().only_for([home.clone()]);
    let client = Client::new(vec![home, elsewhere], &bound, transport, Settings::default());
    let error = client.err().unwrap();
    assert!(matches!(error, ClientError::WrongEndpoint(_)));
    insta::assert_snapshot!(error, @"the credentials of talmox@pve!ci are not for https://evil.example:8006, only for https://pve1.example:8006");
}
