//! Authentication: API tokens, tickets with their anti-forgery tokens, and logging in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::access::Caller;
use crate::api::Call;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::wire::{Request, percent_decode};
use crate::world::{Session, World};

/// A ticket lives two hours.
const TICKET_LIFE: i64 = 2 * 3600 * 1000;
/// Clocks of hosts may differ by so much: milliseconds.
const TICKET_EARLY: i64 = 300 * 1000;
/// A refusal while authenticating is always this late: milliseconds.
pub(crate) const REFUSAL_DELAY: u64 = 3000;

pub(crate) const FAILED: &str = "Authentication failed!";

impl World {
    /// Who calls, or the reason of a 401.
    pub(crate) fn authenticate(&self, request: &Request) -> Result<Caller, String> {
        let plain = self.has(Change::PlainRefusals);
        let words = |reason: String| if plain { FAILED.to_owned() } else { reason };
        if let Some(cookie) = &request.cookie {
            return self.by_ticket(request, &percent_decode(cookie));
        }
        let header = request.authorization.as_deref().unwrap_or_default();
        let Some(token) = header.strip_prefix("PVEAPIToken").and_then(|rest| rest.strip_prefix(['=', ' ']))
        else {
            return Err("No ticket".into());
        };
        self.by_token(&percent_decode(token.split(';').next().unwrap_or_default())).map_err(words)
    }

    fn by_token(&self, text: &str) -> Result<Caller, String> {
        let parts = text.split_once('=').and_then(|(id, secret)| Some((id.split_once('!')?, secret)));
        let ((user, token), secret) = parts.ok_or("no tokenid specified")?;
        let owner = self.access.users.get(user).ok_or_else(|| format!("no such user ('{user}')"))?;
        if let Some(reason) = owner.shut_out(user, self.unix()) {
            return Err(reason);
        }
        let entry =
            owner.tokens.get(token).ok_or_else(|| format!("no such token '{token}' for user '{user}'"))?;
        if entry.expire != 0 && entry.expire <= self.unix() {
            return Err(format!("token '{token}' access expired"));
        }
        if entry.secret != secret {
            return Err("invalid token value!".into());
        }
        Ok(Caller { user: user.to_owned(), token: Some(token.to_owned()) })
    }

    fn by_ticket(&self, request: &Request, ticket: &str) -> Result<Caller, String> {
        let plain = self.has(Change::PlainRefusals);
        let refused = if plain { FAILED } else { "permission denied - invalid PVE ticket" };
        let session = self.live_session(ticket).ok_or(refused)?;
        let user = self.access.users.get(&session.user);
        let shut_out = user.map_or_else(
            || Some(format!("no such user ('{}')", session.user)),
            |user| user.shut_out(&session.user, self.unix()),
        );
        if let Some(reason) = shut_out {
            return Err(if plain { FAILED.to_owned() } else { reason });
        }
        if request.method != "GET" && request.csrf.as_deref() != Some(&session.csrf) {
            return Err("Permission denied - invalid csrf token".into());
        }
        Ok(Caller { user: session.user.clone(), token: None })
    }

    fn live_session(&self, ticket: &str) -> Option<&Session> {
        let age = |session: &Session| {
            i64::try_from(self.clock - session.issued).unwrap_or(i64::MAX).saturating_add(session.jumped)
        };
        self.sessions.get(ticket).filter(|session| (-TICKET_EARLY..TICKET_LIFE).contains(&age(session)))
    }
}

/// `POST /access/ticket`.
pub(crate) fn login(world: &mut World, call: &Call) -> Answer {
    let failure = || ApiError::Status(401, "authentication failure\n".into());
    let given = call.args.text("username");
    let user = match call.args.get("realm") {
        Some(realm) if !given.contains('@') => format!("{given}@{realm}"),
        _ => given.to_owned(),
    };
    let password = call.args.text("password");
    let renewed = world.live_session(password).is_some_and(|session| session.user == user);
    let entry = world.access.users.get(&user).filter(|entry| entry.shut_out(&user, world.unix()).is_none());
    let known = entry.and_then(|entry| entry.password.as_deref());
    if entry.is_none() || !renewed && known != Some(password) {
        return Err(failure());
    }
    let issued = world.unix();
    let ticket = format!("PVE:{user}:{issued:08X}::{}", world.random.hex(64));
    let csrf = format!("{issued:08X}:{}", world.random.hex(43));
    let session = Session { user: user.clone(), csrf: csrf.clone(), issued: world.clock, jumped: 0 };
    world.sessions.insert(ticket.clone(), session);
    let caller = Caller { user: user.clone(), token: None };
    let mut reply = json!({
        "username": user, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": capabilities(world, &caller),
    });
    if let Some((name, _)) = &world.cluster {
        reply["clustername"] = json!(name);
    }
    Ok(reply)
}

/// What the caller could do somewhere, by area, as the web interface wants it.
fn capabilities(world: &World, caller: &Caller) -> Value {
    const AREAS: [(&str, &[&str]); 7] = [
        ("vms", &["VM.", "Permissions.Modify"]),
        ("storage", &["Datastore.", "Permissions.Modify"]),
        ("access", &["User.", "Group.", "Permissions.Modify"]),
        ("nodes", &["Sys.", "Permissions.Modify"]),
        ("sdn", &["SDN.", "Permissions.Modify"]),
        ("dc", &["Sys.Audit", "Sys.Modify", "SDN."]),
        ("mapping", &["Mapping.", "Permissions.Modify"]),
    ];
    let mut found: BTreeMap<&str, Map<String, Value>> =
        AREAS.iter().map(|(area, _)| (*area, Map::new())).collect();
    let top = ["/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"];
    let paths = world.access.acl.iter().map(|entry| entry.path.as_str());
    for path in top.into_iter().chain(paths).collect::<BTreeSet<_>>() {
        let first = path.split('/').nth(1).filter(|part| !part.is_empty()).unwrap_or("dc");
        // What is granted on a pool is granted on VMs and storages.
        let areas: &[&str] = if first == "pool" { &["vms", "storage"] } else { &[first] };
        for (area, prefixes) in AREAS.iter().filter(|(area, _)| areas.contains(area)) {
            let held = world.privileges(caller, path).into_keys();
            let wanted = held.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
            found.entry(area).or_default().extend(wanted.map(|name| (name, json!(1))));
        }
    }
    Value::Object(found.into_iter().map(|(area, held)| (area.to_owned(), Value::Object(held))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Token, User};

    fn world() -> World {
        let mut world = World::new(1, 1_700_000_000_000);
        let token = |expire| Token { secret: "s".into(), expire, ..Token::default() };
        let tokens =
            [("good", 0), ("old", 1_600_000_000)].map(|(name, expire)| (name.to_owned(), token(expire)));
        let user = User { password: Some("p".into()), tokens: tokens.into(), ..User::default() };
        world.access.users.insert("a@pve".into(), user);
        world
    }

    fn with_header(text: &str) -> Request {
        Request { method: "GET".into(), authorization: Some(text.into()), ..Request::default() }
    }

    #[test]
    fn tokens_work_with_an_equals_sign_or_a_blank_and_expire() {
        let world = world();
        assert!(world.authenticate(&with_header("PVEAPIToken=a@pve!good=s")).is_ok());
        assert!(world.authenticate(&with_header("PVEAPIToken a@pve!good=s")).is_ok());
        for bad in [
            "PVEAPIToken=a@pve!good=x",
            "PVEAPIToken=a@pve!old=s",
            "PVEAPIToken=a@pve",
            "PVEAPIToken=b@pve!x=s",
        ] {
            assert_eq!(world.authenticate(&with_header(bad)), Err(FAILED.to_owned()), "{bad}");
        }
        assert_eq!(world.authenticate(&with_header("Bearer x")), Err("No ticket".to_owned()));
    }

    #[test]
    fn tickets_need_the_anti_forgery_token_to_write_and_end_after_two_hours() {
        let mut world = world();
        let session = Session { user: "a@pve".into(), csrf: "c".into(), issued: 0, jumped: 0 };
        world.sessions.insert("t".into(), session);
        let mut request = Request { method: "GET".into(), cookie: Some("t".into()), ..Request::default() };
        assert!(world.authenticate(&request).is_ok());
        request.method = "POST".into();
        assert_eq!(world.authenticate(&request), Err("Permission denied - invalid csrf token".to_owned()));
        request.csrf = Some("c".into());
        assert!(world.authenticate(&request).is_ok());
        world.advance_to(TICKET_LIFE.unsigned_abs());
        assert_eq!(world.authenticate(&request), Err(FAILED.to_owned()));
    }
}
