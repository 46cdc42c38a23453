//! Another server takes the place of Proxmox in the middle of a run: it gets no request, and no token.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use secrecy::ExposeSecret as _;

use super::connecting::{Remote, served};
use super::{CLUSTER, NODES};

/// A wire between talmox and Proxmox: after so many bytes of talmox it is cut, and the next connection reaches another server.
struct Wire {
    genuine: SocketAddr,
    other: SocketAddr,
    cut_after: usize,
    carried: AtomicUsize,
    /// Connections that got another server.
    taken_over: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl Wire {
    fn lay(genuine: SocketAddr, other: SocketAddr, cut_after: usize) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (carried, taken_over) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let wire = Arc::new(Self { genuine, other, cut_after, carried, taken_over, open: Mutex::default() });
        let laid = Arc::clone(&wire);
        // It ends with the test program.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                laid.connect(stream.unwrap());
            }
        });
        (wire, address)
    }

    fn is_cut(&self) -> bool {
        self.carried.load(Ordering::SeqCst) >= self.cut_after
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        let target = if self.is_cut() {
            self.taken_over.fetch_add(1, Ordering::SeqCst);
            self.other
        } else {
            self.genuine
        };
        let server = TcpStream::connect(target).unwrap();
        let mut open = self.open.lock().unwrap();
        open.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
        drop(open);
        let (from_client, to_client) = (client.try_clone().unwrap(), client);
        let (from_server, to_server) = (server.try_clone().unwrap(), server);
        let counting = (target == self.genuine).then(|| Arc::clone(self));
        std::thread::spawn(move || pump(from_client, to_server, counting.as_deref()));
        std::thread::spawn(move || pump(from_server, to_client, None));
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, wire: Option<&Wire>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if let Some(wire) = wire {
            wire.carried.fetch_add(length, Ordering::SeqCst);
            if wire.is_cut() {
                return wire.cut();
            }
        }
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_the_place_of_another_in_the_middle_gets_nothing() {
    let apply = ["apply", "--until", "vms", "--auto-approve"];
    for cut_after in [2_000, 6_000, 12_000, 20_000] {
        let remote = Remote::start(&format!("swapped-{cut_after}")).await;
        let other = served(5).await;
        let fingerprint = remote.server.hosts()[0].fingerprint.clone();
        assert_ne!(fingerprint, other.hosts()[0].fingerprint);
        let (wire, address) =
            Wire::lay(remote.server.hosts()[0].address, other.hosts()[0].address, cut_after);
        let endpoint = format!("https://{address}");
        let described = |endpoint: &str| {
            let cluster = format!("{CLUSTER}proxmox_endpoint: {endpoint}\n");
            std::fs::write(remote.scratch.0.join("cluster.yaml"), cluster).unwrap();
        };
        std::fs::write(remote.scratch.0.join("nodes.yaml"), NODES).unwrap();
        described(&endpoint);
        let variables = [
            ("PROXMOX_VE_ENDPOINT", endpoint.as_str()),
            ("TALMOX_FINGERPRINT", fingerprint.as_str()),
            ("PROXMOX_VE_API_TOKEN", remote.token.expose_secret()),
        ];
        let run = remote.run(&apply, &variables).await;
        assert!(wire.taken_over.load(Ordering::SeqCst) > 0, "cut after {cut_after}: {}", run.whole());
        let run = run.failed();
        assert_eq!(other.calls(), 0, "cut after {cut_after}: {}", run.whole());
        assert!(run.stderr.contains("certificate"), "cut after {cut_after}: {}", run.whole());
        assert!(!run.stderr.contains("panicked"), "{}", run.whole());

        // With the right one in its place again, the same command ends what was begun.
        let endpoint = remote.endpoint();
        described(&endpoint);
        let variables = [("PROXMOX_VE_ENDPOINT", endpoint.as_str()), variables[1], variables[2]];
        remote.run(&apply, &variables).await.succeeded();
        let made = |vmid| remote.server.with(|simulation| simulation.world.has_vm(vmid));
        assert!(made(2000) && made(2001) && made(2002) && !made(2003));
    }
}
