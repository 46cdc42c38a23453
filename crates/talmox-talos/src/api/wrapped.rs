//! Replies with an entry for each node that was asked. One was asked, so there is one entry, and a failure in it is a
//! failure of the call.

use std::time::Duration;

use talmox_proto::common::Metadata;
use talmox_proto::machine as wire;
use talmox_proto::{Message, Method};

use crate::{Client, Code, Error, Status};

pub(crate) trait Wrapped: Message + Default + 'static {
    type One;
    fn entries(self) -> Vec<Self::One>;
    fn metadata(one: &Self::One) -> Option<&Metadata>;
}

macro_rules! wrapped {
    ($($reply:ident: $one:ident),* $(,)?) => {$(
        impl Wrapped for wire::$reply {
            type One = wire::$one;
            fn entries(self) -> Vec<wire::$one> {
                self.messages
            }
            fn metadata(one: &wire::$one) -> Option<&Metadata> {
                one.metadata.as_ref()
            }
        }
    )*};
}

wrapped! {
    ApplyConfigurationResponse: ApplyConfiguration,
    BootstrapResponse: Bootstrap,
    EtcdAlarmDisarmResponse: EtcdAlarmDisarm,
    EtcdAlarmListResponse: EtcdAlarm,
    EtcdDefragmentResponse: EtcdDefragment,
    EtcdForfeitLeadershipResponse: EtcdForfeitLeadership,
    EtcdLeaveClusterResponse: EtcdLeaveCluster,
    EtcdMemberListResponse: EtcdMembers,
    EtcdRecoverResponse: EtcdRecover,
    EtcdRemoveMemberByIdResponse: EtcdRemoveMemberById,
    EtcdStatusResponse: EtcdStatus,
    ImagePullResponse: ImagePull,
    MemoryResponse: Memory,
    RebootResponse: Reboot,
    ResetResponse: Reset,
    RollbackResponse: Rollback,
    ServiceListResponse: ServiceList,
    ServiceRestartResponse: ServiceRestart,
    ServiceStartResponse: ServiceStart,
    ShutdownResponse: Shutdown,
    UpgradeResponse: Upgrade,
    VersionResponse: Version,
}

impl Client {
    /// A call whose reply is wrapped, unpacked.
    pub(crate) async fn one<Request: Message, Reply: Wrapped>(
        &self,
        method: Method<Request, Reply>,
        request: Request,
        deadline: Duration,
    ) -> Result<Reply::One, Error> {
        let reply = self.ask(method, request, deadline).await?;
        self.unpack(method.name(), reply)
    }

    pub(crate) fn unpack<Reply: Wrapped>(
        &self,
        name: &'static str,
        reply: Reply,
    ) -> Result<Reply::One, Error> {
        let empty = || self.error(name, Status::new(Code::Internal, "the reply has no entry"));
        let one = reply.entries().into_iter().next().ok_or_else(empty)?;
        match Reply::metadata(&one).and_then(failure) {
            Some(status) => Err(self.error(name, status)),
            None => Ok(one),
        }
    }
}

/// What an entry says went wrong.
pub(crate) fn failure(metadata: &Metadata) -> Option<Status> {
    if let Some(status) = metadata.status.as_ref().filter(|status| status.code != 0) {
        return Some(Status::new(Code::from_number(status.code), status.message.clone()));
    }
    (!metadata.error.is_empty()).then(|| Status::new(Code::Unknown, metadata.error.clone()))
}
