//! Documents that mutants are made of.

/// Documents that are valid together, with the release that brought the youngest of them.
pub(super) const DOCUMENTS: &[(u16, &str)] = &[
    (
        12,
        "kind: BondConfig\nname: bond0\nlinks: [eth1, eth2]\nbondMode: 802.3ad\nmiimon: 100\nxmitHashPolicy: layer2+3\nlacpRate: fast\nmtu: 1500\naddresses: [{address: 10.1.0.2/24}]\n",
    ),
    (12, "kind: BridgeConfig\nname: br0\nlinks: [eth3]\nstp: {enabled: true}\n"),
    (
        12,
        "kind: VLANConfig\nname: eth0.5\nvlanID: 5\nparent: eth0\naddresses: [{address: 10.2.0.2/24}]\nroutes: [{destination: 10.3.0.0/16, gateway: 10.2.0.1, metric: 7}]\n",
    ),
    (
        12,
        "kind: WireguardConfig\nname: wg0\nprivateKey: GBtDMpQEgZTMzBPBD4BLTgFfLMQ5KXiLWLKyxmBDPFQ=\nlistenPort: 51820\npeers: [{publicKey: GBtDMpQEgZTMzBPBD4BLTgFfLMQ5KXiLWLKyxmBDPFQ=, endpoint: '10.0.0.9:51820', allowedIPs: [10.9.0.0/16]}]\n",
    ),
    (12, "kind: DHCPv4Config\nname: eth5\nrouteMetric: 1024\nclientIdentifier: mac\n"),
    (12, "kind: Layer2VIPConfig\nname: 10.0.7.99\nlink: eth0\n"),
    (12, "kind: StaticHostConfig\nname: 10.0.7.98\nhostnames: [a.lan, b]\n"),
    (12, "kind: TimeSyncConfig\nenabled: true\nbootTimeout: 2m\nntp: {servers: [time.lan]}\n"),
    (8, "kind: NetworkDefaultActionConfig\ningress: block\n"),
    (
        8,
        "kind: NetworkRuleConfig\nname: apid\nportSelector: {ports: [50000, 10250-10260], protocol: tcp}\ningress: [{subnet: 10.0.0.0/8, except: 10.1.0.0/16}]\n",
    ),
    (8, "kind: WatchdogTimerConfig\ndevice: /dev/watchdog0\ntimeout: 3m\n"),
    (8, "kind: KmsgLogConfig\nname: remote\nurl: tcp://10.0.0.7:514\n"),
    (8, "kind: EventSinkConfig\nendpoint: 10.0.0.7:8080\n"),
    (
        8,
        "kind: ExtensionServiceConfig\nname: nut\nconfigFiles: [{content: a, mountPath: /etc/nut.conf}]\nenvironment: [A=b]\n",
    ),
    (
        8,
        "kind: TrustedRootsConfig\nname: own\ncertificates: |\n  -----BEGIN CERTIFICATE-----\n  AAAA\n  -----END CERTIFICATE-----\n",
    ),
    (
        11,
        "kind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: disk.size > 10u * GiB}, minSize: 10GiB, maxSize: 50GiB}\nfilesystem: {type: xfs}\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}\n",
    ),
    (
        11,
        "kind: SwapVolumeConfig\nname: swap1\nprovisioning: {diskSelector: {match: '!system_disk'}, maxSize: 4GiB}\n",
    ),
    (
        10,
        "kind: EthernetConfig\nname: eth7\nfeatures: {tx-tcp-segmentation: true}\nrings: {rx: 256}\nchannels: {combined: 4}\n",
    ),
    (12, "kind: OOMConfig\ntriggerExpression: memory_full_avg10 > 12.0\nsampleInterval: 1s\n"),
    (13, "kind: RoutingRuleConfig\nname: '1000'\nsrc: 10.0.0.0/8\ntable: '100'\naction: unicast\n"),
    (
        14,
        "kind: BGPInstanceConfig\nname: bgp0\nlocalASN: 65001\nrouterID: 10.0.7.11\nrouteSource: 10.0.7.11\nadvertise: [lo]\nmultipath: true\nmaxPaths: 4\ninstallRoutes: true\nneighbors: [{address: 10.0.7.1, peerASN: 65000, holdTime: 90s, bfd: {transmitInterval: 300ms, receiveInterval: 300ms, detectMultiplier: 3}}]\n",
    ),
    (14, "kind: BGPInstanceConfig\nname: bgp1\nlocalASN: 65001\nneighbors: [{link: eth1, passive: true}]\n"),
    (
        12,
        "kind: RegistryMirrorConfig\nname: ghcr.io\nendpoints: [{url: 'https://mirror.lan'}, {url: 'http://10.0.7.5:5000/v2', overridePath: true}]\nskipFallback: true\n",
    ),
    (12, "kind: RegistryAuthConfig\nname: ghcr.io\nusername: me\npassword: hush\n"),
    (12, "kind: RegistryAuthConfig\nname: quay.io\nidentityToken: hush\n"),
    (12, "kind: RegistryTLSConfig\nname: ghcr.io\ninsecureSkipVerify: true\n"),
    (
        13,
        "kind: ImageVerificationConfig\nrules: [{image: 'registry.k8s.io/*', keyless: {issuer: 'https://accounts.google.com', subject: a@b.c}}, {image: 'x.lan/*', skip: true}, {image: '**', deny: true}]\n",
    ),
    (13, "kind: BlackholeRouteConfig\nname: 10.77.0.0/16\nmetric: 5\n"),
    (13, "kind: VRFConfig\nname: vrf1\nlinks: [eth4]\ntable: '200'\nup: true\n"),
    (
        14,
        "kind: VethConfig\nname: veth0\npeer: {name: veth1, mtu: 1400}\naddresses: [{address: 10.4.0.1/30}]\n",
    ),
    (12, "kind: DummyLinkConfig\nname: dummy1\naddresses: [{address: 10.5.0.1/32}]\nup: true\n"),
    (12, "kind: DHCPv6Config\nname: eth6\nclientIdentifier: mac\nignoreHostname: true\n"),
    (12, "kind: HCloudVIPConfig\nname: 10.0.7.97\nlink: eth0\napiToken: hush\n"),
    (12, "kind: LinkAliasConfig\nname: net9\nselector: {match: link.driver == 'virtio_net'}\n"),
    (
        13,
        "kind: TCPProbeConfig\nname: gate\ninterval: 1s\nfailureThreshold: 3\nendpoint: 10.0.7.1:22\ntimeout: 5s\n",
    ),
    (
        14,
        "kind: HTTPProbeConfig\nname: web\ninterval: 1s\nfailureThreshold: 3\nurl: https://10.0.7.1/healthz\ntimeout: 5s\n",
    ),
    (8, "kind: KubeSpanEndpointsConfig\nextraAnnouncedEndpoints: ['10.0.7.3:51820']\n"),
    (8, "kind: SideroLinkConfig\napiUrl: https://omni.lan/?jointoken=hush\n"),
    (
        8,
        "kind: VolumeConfig\nname: EPHEMERAL\nprovisioning: {diskSelector: {match: disk.transport == 'nvme'}, maxSize: 50GiB, grow: false}\n",
    ),
    (
        11,
        "kind: RawVolumeConfig\nname: raw1\nprovisioning: {diskSelector: {match: '!system_disk'}, minSize: 1GiB, maxSize: 2GiB}\n",
    ),
    (
        11,
        "kind: ExistingVolumeConfig\nname: old1\ndiscovery: {volumeSelector: {match: volume.partition_label == 'x'}}\nmount: {readOnly: true}\n",
    ),
    (
        13,
        "kind: ExternalVolumeConfig\nname: shared1\nfilesystemType: virtiofs\nmount: {virtiofs: {tag: data}}\n",
    ),
    (11, "kind: ZswapConfig\nmaxPoolPercent: 25\nshrinkerEnabled: true\n"),
    (13, "kind: EnvironmentConfig\nvariables: {HTTP_PROXY: 'http://proxy.lan:3128'}\n"),
    (10, "kind: PCIDriverRebindConfig\nname: '0000:04:00.0'\ntargetDriver: vfio-pci\n"),
    (14, "kind: KernelModuleConfig\nname: nbd\nparameters: [nbds_max=8]\n"),
    (14, "kind: FilesystemScrubConfig\ninterval: 168h\n"),
    (
        14,
        "kind: LVMVolumeGroupConfig\nname: vg1\nprovisioning: {volumeSelector: {match: volume_id == 'r-x'}}\n",
    ),
    (
        14,
        "kind: LVMLogicalVolumeConfig\nname: lv1\ntype: linear\nprovisioning: {volumeGroup: vg1, minSize: 1GiB, maxSize: 2GiB}\n",
    ),
    (
        14,
        "kind: RAIDArrayConfig\nname: md1\nlevel: raid1\nprovisioning: {volumeSelector: {match: '!system_disk'}}\n",
    ),
    (14, "kind: EtcFileConfig\nname: motd\nmode: 0o644\ncontents: hello\n"),
    (14, "kind: UdevRulesConfig\nrules: ['SUBSYSTEM==\"drm\", GROUP=\"44\"']\n"),
];
