//! Who may do what: roles, access control entries, tokens with and without privilege separation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::reply::ApiError;

const ROLES: &str = include_str!("tables/roles.txt");
/// The one user that may do everything; its tokens may not call themselves that.
pub(crate) const ROOT: &str = "root@pam";

static BUILT_IN: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut roles: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = "";
    for line in ROLES.lines() {
        if line.starts_with(' ') {
            roles.entry(current.to_owned()).or_default().extend(line.split_whitespace().map(str::to_owned));
        } else {
            current = line;
            roles.entry(current.to_owned()).or_default();
        }
    }
    roles
});

/// The roles of the time when one privilege was for the guest agent and the monitor alike.
static WITH_MONITOR: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut roles = BUILT_IN.clone();
    for (name, privileges) in &mut roles {
        privileges.retain(|one| !one.starts_with("VM.GuestAgent.") && one != "VM.Replicate");
        if matches!(name.as_str(), "Administrator" | "PVEAdmin" | "PVEVMAdmin") {
            privileges.insert("VM.Monitor".into());
        }
    }
    roles
});

pub(crate) fn is_privilege(name: &str) -> bool {
    BUILT_IN.get("Administrator").is_some_and(|all| all.contains(name))
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    pub users: BTreeMap<String, User>,
    /// Roles beside the built-in ones.
    pub roles: BTreeMap<String, BTreeSet<String>>,
    pub acl: Vec<AclEntry>,
    /// Groups of users, with their comments. Who is in them is noted down with the users.
    #[serde(default)]
    pub groups: BTreeMap<String, Option<String>>,
    /// `VM.Monitor` stands for the privileges of the guest agent.
    #[serde(default)]
    pub(crate) has_monitor: bool,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct User {
    pub password: Option<String>,
    pub groups: BTreeSet<String>,
    pub tokens: BTreeMap<String, Token>,
    /// May not log in, nor may its tokens.
    #[serde(default)]
    pub disabled: bool,
    /// Unix seconds, 0 for never.
    #[serde(default)]
    pub expire: u64,
    /// What is only shown back: `firstname`, `lastname`, `email`, `comment`, `keys`.
    #[serde(default)]
    pub details: BTreeMap<String, String>,
}

impl User {
    /// Why it may not log in, if it may not.
    pub(crate) fn shut_out(&self, name: &str, now: u64) -> Option<String> {
        if self.disabled {
            return Some(format!("user '{name}' is disabled"));
        }
        (self.expire != 0 && self.expire <= now).then(|| format!("user '{name}' access expired"))
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The keys among the details are secrets as well.
        let Self { password: _, groups, tokens, disabled, expire, details: _ } = self;
        let mut shown = f.debug_struct("User");
        shown
            .field("groups", groups)
            .field("tokens", tokens)
            .field("disabled", disabled)
            .field("expire", expire);
        shown.finish_non_exhaustive()
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Token {
    pub secret: String,
    pub privsep: bool,
    /// Unix seconds, 0 for never.
    pub expire: u64,
    pub comment: Option<String>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { secret: _, privsep, expire, comment } = self;
        let mut shown = f.debug_struct("Token");
        shown
            .field("privsep", privsep)
            .field("expire", expire)
            .field("comment", comment)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AclEntry {
    pub path: String,
    /// `user`, `group` or `token`.
    pub kind: String,
    pub subject: String,
    pub role: String,
    pub propagate: bool,
}

/// The authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub user: String,
    pub token: Option<String>,
}

impl Caller {
    /// `user@realm` or `user@realm!token`.
    pub fn id(&self) -> String {
        self.token.as_ref().map_or_else(|| self.user.clone(), |token| format!("{}!{token}", self.user))
    }

    /// Tokens of root are not root: several options take only the real one.
    pub(crate) fn is_root(&self) -> bool {
        self.user == ROOT && self.token.is_none()
    }
}

/// Which groups a check on users looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Those of the user.
    Own,
    /// Those a new user shall have.
    OfNew,
    /// Both.
    OfChanged,
}

/// What an endpoint asks of the caller before it looks at anything else.
#[derive(Debug, PartialEq)]
pub(crate) enum Check {
    All,
    World,
    Root,
    Perm {
        path: String,
        needs: Option<String>,
        privileges: Vec<String>,
        any: bool,
    },
    And(Vec<Check>),
    Or(Vec<Check>),
    /// On the groups a user is in, and on those it shall be in.
    UserGroup {
        privileges: Vec<String>,
        groups: Groups,
    },
    UserSelf,
    UserRealm(String),
    ModifyAcl(String),
}

impl Check {
    pub(crate) fn read(text: &str) -> Self {
        let text = text.trim();
        let Some((head, inner)) = text.strip_suffix(')').and_then(|rest| rest.split_once('(')) else {
            return match text {
                "all" => Self::All,
                "world" => Self::World,
                _ => Self::Root,
            };
        };
        match head {
            "and" => Self::And(split_checks(inner).map(Self::read).collect()),
            "or" => Self::Or(split_checks(inner).map(Self::read).collect()),
            "usergroup" => Self::read_groups(inner),
            "userparam" if inner == "self" => Self::UserSelf,
            "userparam" => Self::UserRealm(inner.to_owned()),
            "permmodify" => Self::ModifyAcl(inner.to_owned()),
            _ => Self::read_perm(inner),
        }
    }

    fn read_groups(inner: &str) -> Self {
        let (privileges, groups) = match inner.split_once('@') {
            Some((privileges, "create")) => (privileges, Groups::OfNew),
            Some((privileges, _)) => (privileges, Groups::OfChanged),
            None => (inner, Groups::Own),
        };
        Self::UserGroup { privileges: privileges.split('|').map(str::to_owned).collect(), groups }
    }

    fn read_perm(inner: &str) -> Self {
        let (target, privileges) = inner.split_once(' ').unwrap_or((inner, ""));
        let (path, needs) =
            target.split_once('@').map_or((target, None), |(path, needs)| (path, Some(needs.to_owned())));
        let any = privileges.contains('|');
        let privileges = privileges.split(['|', '+']).map(str::to_owned).collect();
        Self::Perm { path: path.to_owned(), needs, privileges, any }
    }
}

fn split_checks(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ' ' && depth == 0
    })
}

pub(crate) type Privileges = BTreeMap<String, bool>;

impl Access {
    pub(crate) fn role(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.roles.get(name).or_else(|| self.built_in().get(name))
    }

    pub(crate) fn built_in(&self) -> &'static BTreeMap<String, BTreeSet<String>> {
        if self.has_monitor { &WITH_MONITOR } else { &BUILT_IN }
    }

    /// Is there such a privilege? Each version ignores those it does not know.
    pub(crate) fn knows(&self, privilege: &str) -> bool {
        self.built_in().get("Administrator").is_some_and(|all| all.contains(privilege))
    }

    /// Effective privileges on a path; the value says whether they reach further down.
    pub(crate) fn privileges(&self, caller: &Caller, path: &str, pool: Option<&str>) -> Privileges {
        let of_user = if caller.user == ROOT {
            self.role("Administrator").into_iter().flatten().map(|name| (name.clone(), true)).collect()
        } else {
            let groups = self.users.get(&caller.user).map(|user| user.groups.clone()).unwrap_or_default();
            self.of_subject("user", &caller.user, &groups, path, pool)
        };
        let Some(token) = &caller.token else { return of_user };
        let entry = self.users.get(&caller.user).and_then(|user| user.tokens.get(token));
        if entry.is_some_and(|entry| !entry.privsep) {
            return of_user;
        }
        let of_token = self.of_subject("token", &caller.id(), &BTreeSet::new(), path, pool);
        let both = |(name, reach): (String, bool)| of_user.get(&name).map(|own| (name, reach && *own));
        of_token.into_iter().filter_map(both).collect()
    }

    /// Is one privilege held on a path? The short way for calls that ask for no more.
    pub(crate) fn holds(&self, caller: &Caller, path: &str, pool: Option<&str>, privilege: &str) -> bool {
        let user = self.users.get(&caller.user);
        let by_user = || {
            let none = BTreeSet::new();
            let groups = user.map_or(&none, |user| &user.groups);
            caller.user == ROOT && self.role("Administrator").is_some_and(|all| all.contains(privilege))
                || self.subject_holds("user", &caller.user, groups, path, pool, privilege)
        };
        let Some(token) = &caller.token else { return by_user() };
        let separated = user.and_then(|user| user.tokens.get(token)).is_none_or(|entry| entry.privsep);
        let by_token = || self.subject_holds("token", &caller.id(), &BTreeSet::new(), path, pool, privilege);
        by_user() && (!separated || by_token())
    }

    fn subject_holds(
        &self,
        kind: &str,
        subject: &str,
        groups: &BTreeSet<String>,
        path: &str,
        pool: Option<&str>,
        privilege: &str,
    ) -> bool {
        let roles = self.roles_with_pool(kind, subject, groups, path, pool);
        let grants = |role: &String| self.role(role).is_some_and(|privileges| privileges.contains(privilege));
        !roles.contains_key("NoAccess") && roles.keys().any(grants)
    }

    fn of_subject(
        &self,
        kind: &str,
        subject: &str,
        groups: &BTreeSet<String>,
        path: &str,
        pool: Option<&str>,
    ) -> Privileges {
        let roles = self.roles_with_pool(kind, subject, groups, path, pool);
        if roles.contains_key("NoAccess") {
            return Privileges::new();
        }
        let mut privileges = Privileges::new();
        for (role, propagate) in roles {
            for name in self.role(&role).into_iter().flatten().filter(|name| self.knows(name)) {
                let entry = privileges.entry(name.clone()).or_insert(propagate);
                *entry |= propagate;
            }
        }
        privileges
    }

    /// Roles on a path, with those its pool brings; the latter reach no further.
    fn roles_with_pool(
        &self,
        kind: &str,
        subject: &str,
        groups: &BTreeSet<String>,
        path: &str,
        pool: Option<&str>,
    ) -> BTreeMap<String, bool> {
        let mut roles = self.roles_on(kind, subject, groups, path);
        if let Some(pool) = pool {
            for (role, _) in self.roles_on(kind, subject, groups, &format!("/pool/{pool}")) {
                roles.entry(role).or_insert(false);
            }
        }
        roles
    }

    /// Entries of a deeper path replace those of the paths above it; a user's own replace those of groups.
    fn roles_on(
        &self,
        kind: &str,
        subject: &str,
        groups: &BTreeSet<String>,
        path: &str,
    ) -> BTreeMap<String, bool> {
        let mut found = BTreeMap::new();
        for prefix in prefixes(path) {
            let here = |entry: &&AclEntry| entry.path == prefix && (entry.propagate || prefix == path);
            let own = |entry: &&AclEntry| entry.kind == kind && entry.subject == subject;
            let group = |entry: &&AclEntry| entry.kind == "group" && groups.contains(&entry.subject);
            let pick = |keep: &dyn Fn(&&AclEntry) -> bool| -> BTreeMap<String, bool> {
                let entries = self.acl.iter().filter(here).filter(|entry| keep(entry));
                entries.map(|entry| (entry.role.clone(), entry.propagate)).collect()
            };
            let direct = pick(&own);
            let here_found = if direct.is_empty() { pick(&group) } else { direct };
            if !here_found.is_empty() {
                found = here_found;
            }
        }
        found
    }
}

fn prefixes(path: &str) -> Vec<String> {
    let mut all = vec!["/".to_owned()];
    let mut current = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        current = format!("{current}/{part}");
        all.push(current.clone());
    }
    all
}

/// The refusal of a check on one path.
pub(crate) fn denied(path: &str, privileges: &str) -> ApiError {
    ApiError::Permission(Some(format!("{path}, {privileges}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let entry = |path: &str, kind: &str, subject: &str, role: &str| AclEntry {
            path: path.into(),
            kind: kind.into(),
            subject: subject.into(),
            role: role.into(),
            propagate: true,
        };
        let token = |privsep| Token { privsep, ..Token::default() };
        let tokens = BTreeMap::from([("sep".into(), token(true)), ("full".into(), token(false))]);
        let user = User { tokens, ..User::default() };
        Access {
            users: BTreeMap::from([("a@pve".into(), user)]),
            roles: BTreeMap::new(),
            acl: vec![
                entry("/", "user", "a@pve", "PVEAuditor"),
                entry("/vms", "user", "a@pve", "PVEVMUser"),
                entry("/vms", "token", "a@pve!sep", "PVEVMAdmin"),
                entry("/pool/p", "user", "a@pve", "PVEVMAdmin"),
                entry("/storage/s", "user", "a@pve", "NoAccess"),
            ],
            groups: BTreeMap::new(),
            has_monitor: false,
        }
    }

    fn caller(token: Option<&str>) -> Caller {
        Caller { user: "a@pve".into(), token: token.map(str::to_owned) }
    }

    #[test]
    fn deeper_entries_replace_upper_ones() {
        let access = access();
        let on = |path: &str| access.privileges(&caller(None), path, None);
        assert!(on("/nodes/n").contains_key("Sys.Audit"));
        assert!(on("/vms/100").contains_key("VM.PowerMgmt") && !on("/vms/100").contains_key("Sys.Audit"));
        assert!(on("/storage/s").is_empty() && !on("/storage/t").is_empty());
    }

    #[test]
    fn a_separated_token_has_only_what_both_have() {
        let access = access();
        let sep = access.privileges(&caller(Some("sep")), "/vms/100", None);
        assert!(sep.contains_key("VM.PowerMgmt") && !sep.contains_key("VM.Allocate"));
        assert!(access.privileges(&caller(Some("sep")), "/nodes/n", None).is_empty());
        assert!(access.privileges(&caller(Some("full")), "/nodes/n", None).contains_key("Sys.Audit"));
    }

    #[test]
    fn secrets_do_not_show() {
        let token = Token { secret: "hidden".into(), ..Token::default() };
        let user = User {
            password: Some("hidden".into()),
            tokens: BTreeMap::from([("t".into(), token)]),
            ..User::default()
        };
        assert!(!format!("{user:?}").contains("hidden"));
    }

    #[test]
    fn both_ways_to_ask_agree() {
        let access = access();
        let callers = [
            caller(None),
            caller(Some("sep")),
            caller(Some("full")),
            Caller { user: ROOT.into(), token: None },
        ];
        for who in callers {
            for path in ["/", "/vms/100", "/storage/s", "/storage/t", "/nodes/n"] {
                for pool in [None, Some("p")] {
                    let held = access.privileges(&who, path, pool);
                    for name in ["VM.Audit", "VM.Allocate", "VM.PowerMgmt", "Sys.Audit", "Datastore.Audit"] {
                        assert_eq!(
                            access.holds(&who, path, pool, name),
                            held.contains_key(name),
                            "{who:?} {path} {name}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_pool_adds_to_its_members() {
        let access = access();
        assert!(!access.privileges(&caller(None), "/vms/100", None).contains_key("VM.Allocate"));
        assert!(access.privileges(&caller(None), "/vms/100", Some("p")).contains_key("VM.Allocate"));
    }

    #[test]
    fn checks_are_read_with_their_nesting() {
        let check = Check::read(
            "and(perm(/vms/{vmid} VM.Clone) or(perm(/vms/{newid} A+B) perm(/pool/{pool}@pool C|D)))",
        );
        let Check::And(parts) = check else { panic!("not an and") };
        let Check::Or(inner) = &parts[1] else { panic!("not an or") };
        assert_eq!(inner.len(), 2);
        assert_eq!(
            inner[1],
            Check::Perm {
                path: "/pool/{pool}".into(),
                needs: Some("pool".into()),
                privileges: vec!["C".into(), "D".into()],
                any: true
            }
        );
    }
}
