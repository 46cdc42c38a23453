//! What the environment says of Proxmox, in the words of the tools people come from.

use secrecy::SecretString;

/// Looks variables up; in tests in a table.
pub(super) struct Environment<'a>(Box<Lookup<'a>>);

type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Environment<'_> {
    #[expect(clippy::disallowed_methods, reason = "the one place where variables of other tools are read")]
    pub(super) fn of_process() -> Self {
        Self(Box::new(|name| std::env::var(name).ok()))
    }

    /// A variable that is set to something. Where a tool spreads a value over two variables, they are put together.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = self.as_set(name)?;
        Some(match name {
            // Ansible has the port by itself.
            "PROXMOX_HOST" if !value.contains(':') => match self.as_set("PROXMOX_PORT") {
                Some(port) => format!("{value}:{port}"),
                None => value,
            },
            // And the name of a token without its user.
            "PROXMOX_TOKEN_ID" if !value.contains('!') => match self.as_set("PROXMOX_USER") {
                Some(user) => format!("{user}!{value}"),
                None => value,
            },
            _ => value,
        })
    }

    fn as_set(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(super) fn secret(&self, name: &str) -> Option<SecretString> {
        self.get(name).map(SecretString::from)
    }

    /// Whether a variable says yes. Only in so many words: what is missing never makes anything less safe.
    pub(super) fn says_yes(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| ["1", "true", "yes"].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// Whether a variable says no, in so many words.
    fn says_no(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| ["0", "false", "no"].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// The variable by which the person has certificates accepted unseen, if there is one.
    pub(super) fn insecure(&self) -> Option<&'static str> {
        let words = FAMILIES.iter().map(|family| family.insecure);
        words.into_iter().find_map(|word| match word {
            Insecure::Yes(name) => self.says_yes(name).then_some(name),
            Insecure::No(name) => self.says_no(name).then_some(name),
        })
    }
}

#[cfg(test)]
impl<'a> Environment<'a> {
    pub(super) fn of_table(table: &'a [(&'a str, &'a str)]) -> Self {
        Self(Box::new(|name| {
            table.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        }))
    }
}

/// The variables of one kind of tool. They belong together: its token is for its endpoint.
pub(super) struct Family {
    /// Who reads them too.
    pub(super) tool: &'static str,
    pub(super) endpoints: &'static [&'static str],
    pub(super) token: Token,
    pub(super) user: &'static str,
    pub(super) password: &'static str,
    insecure: Insecure,
}

/// How a family says that certificates are not checked.
#[derive(Clone, Copy)]
enum Insecure {
    /// By a yes.
    Yes(&'static str),
    /// By a no: the variable asks whether they are.
    No(&'static str),
}

/// How a family writes a token.
pub(super) enum Token {
    /// `USER@REALM!NAME=SECRET` in one.
    Whole(&'static str),
    Parts {
        id: &'static str,
        secret: &'static str,
    },
}

impl Token {
    pub(super) fn names(&self) -> Vec<&'static str> {
        match self {
            Self::Whole(name) => vec![name],
            Self::Parts { id, secret } => vec![id, secret],
        }
    }
}

/// In the order they are asked.
pub(super) const FAMILIES: [Family; 4] = [
    Family {
        tool: "bpg/proxmox",
        endpoints: &["PROXMOX_VE_ENDPOINT"],
        token: Token::Whole("PROXMOX_VE_API_TOKEN"),
        user: "PROXMOX_VE_USERNAME",
        password: "PROXMOX_VE_PASSWORD",
        insecure: Insecure::Yes("PROXMOX_VE_INSECURE"),
    },
    Family {
        tool: "Cluster API",
        endpoints: &["PROXMOX_URL", "PROXMOX_HOST"],
        token: Token::Parts { id: "PROXMOX_TOKEN", secret: "PROXMOX_SECRET" },
        user: "PROXMOX_USER",
        password: "PROXMOX_PASSWORD",
        insecure: Insecure::Yes("PROXMOX_INSECURE"),
    },
    Family {
        tool: "Ansible",
        endpoints: &["PROXMOX_URL", "PROXMOX_HOST"],
        token: Token::Parts { id: "PROXMOX_TOKEN_ID", secret: "PROXMOX_TOKEN_SECRET" },
        user: "PROXMOX_USER",
        password: "PROXMOX_PASSWORD",
        insecure: Insecure::No("PROXMOX_VALIDATE_CERTS"),
    },
    Family {
        tool: "OpenTofu",
        endpoints: &["TF_VAR_proxmox_endpoint", "TF_VAR_proxmox_url"],
        token: Token::Whole("TF_VAR_proxmox_api_token"),
        user: "TF_VAR_proxmox_username",
        password: "TF_VAR_proxmox_password",
        insecure: Insecure::Yes("TF_VAR_proxmox_insecure"),
    },
];
