//! SOPS files: YAML whose values are encrypted one by one, with a MAC over all of them.
//!
//! ```text
//! text ──parse──▶ tree ──walk (selection, cipher, MAC)──▶ tree ──print──▶ text
//!                  │                                        ▲
//!                  └── `sops:` of the first document: metadata, which holds the data key for each recipient
//! ```

mod cipher;
mod comments;
mod decrypt;
mod encrypt;
mod error;
mod metadata;
mod parse;
mod print;
mod scalar;
mod selection;
mod shamir;
mod timestamp;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use decrypt::{Decrypted, SopsFile};
pub use encrypt::{Rule, encrypt};
pub use error::{DecryptError, EncryptError, ParseError};
pub use selection::{InvalidPattern, Selection};

/// The data key: it encrypts every value.
type DataKey = zeroize::Zeroizing<[u8; 32]>;

/// The version of SOPS whose format this is.
const FORMAT_VERSION: &str = "3.13.3";

/// Whether a text is a SOPS file: YAML with a `sops` block. What cannot be read is none.
pub fn is_sops(text: &str) -> bool {
    SopsFile::parse(text).is_ok()
}
