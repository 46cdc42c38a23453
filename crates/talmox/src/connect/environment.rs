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

    /// A variable that is set to something.
    pub(super) fn get(&self, name: &str) -> Option<String> {
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
    pub(super) insecure: &'static str,
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
pub(super) const FAMILIES: [Family; 3] = [
    Family {
        tool: "bpg/proxmox",
        endpoints: &["PROXMOX_VE_ENDPOINT"],
        token: Token::Whole("PROXMOX_VE_API_TOKEN"),
        user: "PROXMOX_VE_USERNAME",
        password: "PROXMOX_VE_PASSWORD",
        insecure: "PROXMOX_VE_INSECURE",
    },
    Family {
        tool: "Cluster API",
        endpoints: &["PROXMOX_URL", "PROXMOX_HOST"],
        token: Token::Parts { id: "PROXMOX_TOKEN", secret: "PROXMOX_SECRET" },
        user: "PROXMOX_USER",
        password: "PROXMOX_PASSWORD",
        insecure: "PROXMOX_INSECURE",
    },
    Family {
        tool: "Ansible",
        endpoints: &["PROXMOX_URL", "PROXMOX_HOST"],
        token: Token::Parts { id: "PROXMOX_TOKEN_ID", secret: "PROXMOX_TOKEN_SECRET" },
        user: "PROXMOX_USER",
        password: "PROXMOX_PASSWORD",
        insecure: "PROXMOX_INSECURE",
    },
];
