//! What people and programs are shown, made from plain data: no screen asks anything of the world.

mod adoption;
mod adoption_data;
mod check;
mod cluster_adoption;
mod conversion;
mod ending;
mod ends;
mod etcd;
mod health;
mod inside;
mod places;
mod plan_data;
mod plan_markdown;
mod plan_text;
mod rolling;
mod secrets;
mod status;
mod story;
mod table;
mod templates;
mod text;
mod things;
mod waiting;
mod words;

pub(crate) use adoption::{adoption_text, question};
pub(crate) use adoption_data::AdoptionData;
pub(crate) use check::{CheckData, check_text};
pub(crate) use cluster_adoption::{ClusterAdoptionData, cluster_adoption_text};
pub(crate) use conversion::conversion_text;
pub(crate) use ending::{Broken, Failed, Finish, broken, finished, left_lines};
pub(crate) use ends::Ending;
pub(crate) use etcd::{EtcdData, MembersData, bytes, etcd_text, members_text};
pub(crate) use health::{HealthData, health_line, health_text};
pub(crate) use inside::{EtcdView, InsideView, SeenHealth, rotation_words};
pub(crate) use places::Places;
pub(crate) use plan_data::{PLAN_SCHEMA, PlanData};
pub(crate) use plan_markdown::plan_markdown;
pub(crate) use plan_text::{Verbosity, left_behind, no_template_to_do, nothing_to_do, plan_text};
pub(crate) use secrets::{SecretsData, secrets_text};
pub(crate) use status::{OutputData, StatusData, output_text, status_text};
pub(crate) use story::Story;
pub(crate) use templates::{TemplatesData, reference_text, show_text, templates_text};
pub(crate) use text::{duration, plural, safe};
pub(crate) use waiting::waits;
pub(crate) use words::{could, doing, done};

#[cfg(test)]
pub(crate) mod testbed;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upgrade_tests;
