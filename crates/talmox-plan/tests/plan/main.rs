//! What is planned for what is there, and whether a bad plan is caught.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::semicolon_if_nothing_returned,
    reason = "a test fails by panicking, and only one kind of step matters to each"
)]

mod changing;
mod check;
mod compared;
mod creating;
mod doubles;
mod drift;
mod ha;
mod identity;
mod inside;
mod kubernetes;
mod placing;
mod removing;
mod renamed;
mod rewound;
mod rotation;
mod seeds;
mod support;
mod talos;
mod templates;
mod unavailable;
