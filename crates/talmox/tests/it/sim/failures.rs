//! What a person reads when something goes wrong between client and server.

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use talmox_pve::client::{
    Client, CreateVm, Credentials, Error, ErrorKind, HttpsTransport, Outcome, Settings, TaskError, Trust,
    Upid,
};
use talmox_pve::property::VmConfig;
use talmox_sim::serve::{self, Addresses, Server};
use talmox_sim::{Calls, Fault, Reach};

use crate::sim::{
    client, client_with, endpoint, fast, fingerprint, pve1, simulator, token, told, vmid, world,
};

async fn create(client: &Client) -> Result<Upid, Error> {
    let config: VmConfig = [("name", "web"), ("scsi0", "local-zfs:4")].into_iter().collect();
    client.create_vm(&pve1(), &CreateVm { vmid: vmid(100), config, pool: None, storage: None }).await
}

#[tokio::test]
async fn an_unknown_certificate_is_shown_and_can_be_pinned() {
    let (server, stranger) = (simulator(1).await, simulator(1).await);
    let trust = Trust::Authorities(stranger.authority().to_owned());
    let error = client_with(vec![endpoint(&server, 0)], &token(&server), trust).version().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NeverSent);
    assert_eq!(server.calls(), 0, "the token went to a stranger");
    let ErrorKind::Certificate(certificate) = error.kind() else { panic!("{error:?}") };
    let shown = certificate.fingerprint;
    assert_snapshot!(told(&error).replace(&shown.to_string(), "AB:CD:…"));

    let pinned = client_with(vec![endpoint(&server, 0)], &token(&server), Trust::Fingerprints(vec![shown]));
    assert_eq!(pinned.version().await.unwrap().release.as_str(), "9.2");
    let reported = pinned.nodes().await.unwrap()[0].ssl_fingerprint;
    assert_eq!(reported, Some(fingerprint(&server, 0)), "/nodes names the certificate that is shown");
}

#[tokio::test]
async fn a_wrong_token() {
    let server = simulator(1).await;
    let trust = Trust::Authorities(server.authority().to_owned());
    let error =
        client_with(vec![endpoint(&server, 0)], "talmox@pve!sim=wrong", trust).version().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::Refused, &ErrorKind::Unauthenticated));
    assert_snapshot!(told(&error));
}

/// Hosts at addresses of their own on one port, as real ones are, and a client that was told of the first alone.
#[tokio::test]
async fn a_client_learns_of_the_other_hosts_and_asks_them() {
    let settings = serve::Settings { addresses: Addresses::Each, ..fast() };
    let server = Server::start(world(3), settings).await.unwrap();
    let port = server.hosts()[0].address.port();
    for (host, ip) in server.hosts().iter().zip(["127.0.0.1", "127.0.0.2", "127.0.0.3"]) {
        assert_eq!(host.endpoint(), format!("https://{ip}:{port}"));
    }
    let credentials = Credentials::token(&token(&server).into()).unwrap();
    let transport = HttpsTransport::new(Trust::Fingerprints(vec![fingerprint(&server, 0)])).unwrap();
    let client = Client::new(
        vec![endpoint(&server, 0)],
        &credentials.and_their_peers(),
        Arc::new(transport),
        Settings::default(),
    )
    .unwrap();
    let peers = client.learn_peers().await.unwrap();
    let found: Vec<_> =
        peers.iter().map(|peer| (peer.node.as_str(), &peer.endpoint, peer.fingerprint)).collect();
    let (second, third) = (endpoint(&server, 1), endpoint(&server, 2));
    assert_eq!(
        found,
        [("pve2", &second, fingerprint(&server, 1)), ("pve3", &third, fingerprint(&server, 2))]
    );
    server.set_reach("pve1", Reach::ProxyDown).await.unwrap();
    let status = client.cluster_status().await.unwrap();
    let local: Vec<&str> =
        status.nodes.iter().filter(|node| node.local).map(|node| node.name.as_str()).collect();
    assert_eq!(local, ["pve2"], "another host answers, with the certificate the first one told of");
    server.set_reach("pve2", Reach::ProxyDown).await.unwrap();
    client.version().await.expect("there is a third");
}

#[tokio::test]
async fn a_host_that_is_down() {
    let server = simulator(2).await;
    let first = client(&server);
    server.set_reach("pve1", Reach::ProxyDown).await.unwrap();
    let error = create(&first).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::NeverSent, &ErrorKind::Unreachable));
    assert_snapshot!(told(&error));

    let trust = || Trust::Authorities(server.authority().to_owned());
    let both = client_with(vec![endpoint(&server, 0), endpoint(&server, 1)], &token(&server), trust());
    both.version().await.expect("the other host answers");
    let second = client_with(vec![endpoint(&server, 1)], &token(&server), trust());
    // A connection that was kept breaks first.
    let error = create(&second).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Timeout));
    let error = create(&second).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::NodeDown));
    assert_snapshot!(told(&error));

    server.set_reach("pve1", Reach::Up).await.unwrap();
    create(&first).await.unwrap();
}

#[tokio::test]
async fn a_host_that_goes_down_under_a_call() {
    let server = simulator(1).await;
    let client = client(&server);
    server.with(|simulation| {
        simulation.faults.next(Calls::to("POST", "/nodes/*/qemu"), Fault::HostDown);
    });
    let error = create(&client).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    assert!(!server.with(|simulation| simulation.world.has_vm(100)));
    server.set_reach("pve1", Reach::ProxyDown).await.unwrap();
    let error = client.version().await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_reply_that_is_lost_after_success() {
    let server = simulator(1).await;
    let client = client(&server);
    server.with(|simulation| {
        simulation.faults.next(Calls::to("POST", "/nodes/*/qemu"), Fault::LoseReply);
    });
    let error = create(&client).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    assert_snapshot!(told(&error));
    assert!(server.with(|simulation| simulation.world.has_vm(100)), "it did happen");
    let error = create(&client).await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::Refused, &ErrorKind::Exists));
    assert_snapshot!(told(&error));
}

#[tokio::test]
async fn a_reply_that_is_cut() {
    let server = simulator(1).await;
    let client = client(&server);
    server
        .with(|simulation| simulation.faults.next(Calls::to("GET", "/nodes"), Fault::CutBody { after: 40 }));
    let error = client.nodes().await.unwrap_err();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Lost));
    assert_snapshot!(told(&error));
    assert_eq!(client.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_idle_connection_that_is_closed_costs_nothing() {
    let server = simulator(1).await;
    let client = client(&server);
    server.with(|simulation| simulation.faults.next(Calls::to("GET", "/version"), Fault::CloseIdle));
    client.version().await.unwrap();
    server.quiet().await;
    // Another's call goes the same way through the kernel as the farewell before it.
    crate::sim::client(&server).version().await.unwrap();
    create(&client).await.unwrap();
    assert_eq!(server.calls(), 3, "the change was sent once");
}

#[tokio::test]
async fn five_idle_seconds_close_a_connection() {
    let server = simulator(1).await;
    client(&server).version().await.unwrap();
    let kept = client(&server);
    kept.version().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(5_001)).await;
    tokio::time::resume();
    server.quiet().await;
    kept.version().await.unwrap();
}

#[tokio::test]
async fn a_host_that_stays_silent() {
    let server = simulator(1).await;
    let client = client(&server);
    server.with(|simulation| simulation.faults.next(Calls::any(), Fault::Hang));
    let call = create(&client);
    let mut call = std::pin::pin!(call);
    while server.calls() == 0 {
        tokio::select! {
            biased;
            _ = &mut call => panic!("the server said something"),
            () = tokio::task::yield_now() => {}
        }
    }
    tokio::time::pause();
    let error = call.await.unwrap_err();
    tokio::time::resume();
    assert_eq!((error.outcome(), error.kind()), (Outcome::MayHaveHappened, &ErrorKind::Timeout));
    assert_snapshot!(told(&error));
    assert!(!server.with(|simulation| simulation.world.has_vm(100)));
}

#[tokio::test]
async fn a_killed_worker_leaves_a_locked_vm() {
    let server = simulator(1).await;
    let client = client(&server);
    server.with(|simulation| {
        simulation.faults.next(Calls::to("POST", "/nodes/*/qemu"), Fault::KillWorker { after: 10 });
    });
    let task = create(&client).await.unwrap();
    let ended =
        client.follow(&task, "making VM 100", Duration::from_secs(20), &talmox_pve::client::Silent).await;
    let TaskError::Failed { words, .. } = ended.unwrap_err() else { panic!("it does not end") };
    assert_eq!(words, "unexpected status");
    let error = client.start_vm(&pve1(), vmid(100)).await;
    let locked = match error {
        Err(error) => told(&error),
        Ok(task) => client
            .follow(&task, "start of VM 100", Duration::from_secs(20), &talmox_pve::client::Silent)
            .await
            .unwrap_err()
            .to_string()
            .replace(&task.to_string(), "UPID"),
    };
    assert_snapshot!(locked);
}
