//! What the credentials may do, what a description and each step need, and the lines that grant it.
//!
//! ```text
//!  /access/permissions ──▶ Rights ─┐
//!  description ──▶ needs() ────────┼─ check: what is missing        check --setup: lines to paste
//!  a step, an intent ──▶ uses() ───┴─ plan: refused before the first step, with the line that grants it
//!                         │
//!                         └─ one table: feature ─▶ privilege ─▶ path
//! ```

mod grant;
mod rights;
mod table;
mod uses;

pub use grant::{Area, Grantee, areas, entry_line, grant_lines, path_word, role_line};
pub use rights::Rights;
pub use table::{
    Need, Release, Surroundings, TEMPLATES_POOL, Weight, bridge_path, disk_storages, hosts_of, image_storage,
    needs, possible_hosts, templates,
};
pub use uses::{At, Use, uses, uses_later};
