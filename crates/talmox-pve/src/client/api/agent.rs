//! What the guest agent says. Never waited for: Talos has one only with an extension.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use talmox_types::{HostName, VmId};

use super::qemu::vm_path;
use crate::client::call::Call;
use crate::client::reply::Reply;
use crate::client::{Client, Error, ErrorKind, Method, Outcome, Params, scalar};

/// An interface as the guest sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentInterface {
    pub name: String,
    #[serde(rename = "hardware-address", default, deserialize_with = "scalar::optional")]
    pub hardware_address: Option<String>,
    #[serde(rename = "ip-addresses", default)]
    pub addresses: Vec<AgentAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentAddress {
    #[serde(rename = "ip-address")]
    pub address: String,
    #[serde(deserialize_with = "scalar::scalar")]
    pub prefix: u16,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Value,
}

impl Client {
    pub async fn agent_ping(&self, node: &HostName, vmid: VmId) -> Result<(), Error> {
        self.agent::<Value>(Method::Post, node, vmid, "ping").await.map(drop)
    }

    pub async fn agent_interfaces(&self, node: &HostName, vmid: VmId) -> Result<Vec<AgentInterface>, Error> {
        self.agent(Method::Get, node, vmid, "network-get-interfaces").await
    }

    /// Has the agent do something. A command it refuses comes as a success with an error inside.
    async fn agent<T: DeserializeOwned>(
        &self,
        method: Method,
        node: &HostName,
        vmid: VmId,
        command: &str,
    ) -> Result<T, Error> {
        let call = Call::new(method, vm_path(node, vmid, &[&"agent", &command]), Params::new());
        let Reply { data: Answer { result }, endpoint, .. } = self.call_whole(&call).await?;
        if let Some(refusal) = result.get("error") {
            let words = refusal["desc"].as_str().unwrap_or("the agent refused the command");
            let error = Error::new(&call.name(), &endpoint, ErrorKind::Agent, Outcome::Refused, words);
            return Err(self.masked(error));
        }
        serde_json::from_value(result).map_err(|error| {
            let words = format!("the agent's answer is not what was expected: {error}");
            let outcome = Outcome::MayHaveHappened;
            self.masked(Error::new(&call.name(), &endpoint, ErrorKind::Unreadable, outcome, &words))
        })
    }
}
