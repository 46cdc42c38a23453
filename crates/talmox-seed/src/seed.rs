//! The three files, and the image that holds them.

use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use talmox_types::NodeName;

use crate::iso::{self, File};

/// The volume label Talos looks for.
pub const LABEL: &str = "cidata";

pub const USER_DATA: &str = "user-data";
pub const META_DATA: &str = "meta-data";
pub const NETWORK_CONFIG: &str = "network-config";

/// What Talos would make of a file that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSeed {
    #[error("there is no machine configuration: a node would read its drive over and over again")]
    EmptyUserData,
    #[error(
        "the machine configuration begins with {0}: a node would take it for something else, and wait for configuration"
    )]
    OtherUserData(&'static str),
    #[error("there is no network-config: a node would pass over its name and everything else in meta-data")]
    EmptyNetworkConfig,
}

/// First lines that make a file something else than a machine configuration.
const OTHER_WORDS: [&str; 2] = ["#cloud-config", "#include"];

/// Everything a node gets, on its drive or from a web server.
pub struct Seed {
    user_data: SecretString,
    meta_data: String,
    network_config: String,
}

impl Seed {
    pub fn new(
        machine_config: SecretString,
        meta_data: String,
        network_config: String,
    ) -> Result<Self, InvalidSeed> {
        let text = machine_config.expose_secret();
        if text.trim().is_empty() {
            return Err(InvalidSeed::EmptyUserData);
        }
        if let Some(word) = OTHER_WORDS.into_iter().find(|word| text.starts_with(word)) {
            return Err(InvalidSeed::OtherUserData(word));
        }
        if network_config.trim().is_empty() {
            return Err(InvalidSeed::EmptyNetworkConfig);
        }
        Ok(Self { user_data: machine_config, meta_data, network_config })
    }

    /// One of the three files by its name.
    pub fn file(&self, name: &str) -> Option<SecretSlice<u8>> {
        let text = match name {
            USER_DATA => self.user_data.expose_secret(),
            META_DATA => &self.meta_data,
            NETWORK_CONFIG => &self.network_config,
            _ => return None,
        };
        Some(SecretSlice::from(text.as_bytes().to_vec()))
    }

    /// The ISO image. The same files make the same bytes.
    pub fn image(&self) -> SecretSlice<u8> {
        iso::write(
            LABEL,
            &[
                File { name: META_DATA, short: "META_DAT", bytes: self.meta_data.as_bytes() },
                File { name: NETWORK_CONFIG, short: "NETWORK_", bytes: self.network_config.as_bytes() },
                File { name: USER_DATA, short: "USER_DAT", bytes: self.user_data.expose_secret().as_bytes() },
            ],
        )
    }
}

/// What a node is called. The name is in its machine configuration too, which wins; here it is for the moments before.
pub fn meta_data(node: &NodeName, instance: &str) -> String {
    format!("instance-id: \"{instance}\"\nlocal-hostname: \"{node}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(user_data: &str, network_config: &str) -> Result<Seed, InvalidSeed> {
        Seed::new(user_data.to_owned().into(), String::new(), network_config.to_owned())
    }

    #[test]
    fn what_talos_would_misunderstand_is_refused() {
        let good = "version: 2\n";
        assert_eq!(seed("", good).err(), Some(InvalidSeed::EmptyUserData));
        assert_eq!(seed(" \n", good).err(), Some(InvalidSeed::EmptyUserData));
        assert_eq!(
            seed("#cloud-config\na: b", good).err(),
            Some(InvalidSeed::OtherUserData("#cloud-config"))
        );
        assert_eq!(seed("#include\nhttp://x", good).err(), Some(InvalidSeed::OtherUserData("#include")));
        assert_eq!(seed("version: v1alpha1", "").err(), Some(InvalidSeed::EmptyNetworkConfig));
        assert!(seed("# a remark\nversion: v1alpha1", good).is_ok());
    }

    #[test]
    fn an_image_does_not_print_what_it_holds() {
        let image = seed("token: hush", "version: 2\n").unwrap().image();
        assert!(!format!("{image:?}").contains("hush"));
    }
}
