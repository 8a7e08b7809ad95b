//! The settings of a server, and the command line that starts it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::super::authority::{Authority, Identity};
use super::super::process::is_installed;

/// The properties that remove empty containers within seconds, all at once.
///
/// By default the server looks for empty containers once a minute, and removes at most 10,000.
const PROMPT_CONTAINERS: [&str; 2] = [
    "-Dznode.container.checkIntervalMs=5000",
    "-Dznode.container.maxPerMinute=1000000",
];

/// The directory of the libraries of Java programs on Debian.
const LIBRARIES: &str = "/usr/share/java";

/// The libraries that every server needs.
const PLAIN: [&str; 2] = ["zookeeper.jar", "slf4j-simple.jar"];
/// The libraries that a server needs for TLS.
const NETTY: [&str; 9] = [
    "netty-buffer.jar",
    "netty-codec.jar",
    "netty-common.jar",
    "netty-handler.jar",
    "netty-resolver.jar",
    "netty-tcnative.jar",
    "netty-transport.jar",
    "netty-transport-native-epoll.jar",
    "netty-transport-native-unix-common.jar",
];

/// Returns the name of a missing program or library; `None` if all are installed.
pub(super) fn missing() -> Option<String> {
    if !is_installed("java") {
        return Some("java".to_owned());
    }
    let libraries = PLAIN.map(|library| format!("{LIBRARIES}/{library}"));
    libraries
        .into_iter()
        .find(|library| !Path::new(library).is_file())
}

/// The certificates of a server that speaks TLS.
#[derive(Clone, Debug)]
pub(super) struct Secure {
    /// The private key and the certificate in one PEM file, as the server requires.
    own: String,
    ca: String,
}

impl Secure {
    pub(super) fn new(authority: &Authority, identity: &Identity) -> Self {
        let read = |path: &Path| fs::read_to_string(path).expect("a file of the authority");
        Self {
            own: read(&identity.key) + &read(&identity.cert),
            ca: read(&authority.ca()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Actions that usually happen once a minute happen quickly.
    Tests,
    /// All settings that affect speed have their defaults.
    Measurements,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) tls_port: Option<u16>,
    secure: Option<Secure>,
    number: usize,
    /// For each member, the port for other members and the port for elections.
    ensemble: Vec<(u16, u16)>,
    purpose: Purpose,
    lines: Vec<String>,
    /// Java properties, which are not part of `zoo.cfg`.
    properties: Vec<String>,
}

impl Settings {
    /// Creates the settings for `count` servers, on ports that `port` returns.
    pub(super) fn draw(
        count: usize,
        port: impl Fn() -> u16,
        secure: Option<&Secure>,
        purpose: Purpose,
        lines: &[&str],
    ) -> Vec<Self> {
        let alone = count == 1;
        let ensemble: Vec<(u16, u16)> = (0..count).map(|_| (port(), port())).collect();
        let lines = lines.iter().map(|line| (*line).to_owned());
        let (properties, lines): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("-D"));
        let settings = |number| Self {
            tls_port: secure.map(|_| port()),
            secure: secure.cloned(),
            number,
            ensemble: if alone { Vec::new() } else { ensemble.clone() },
            purpose,
            lines: lines.clone(),
            properties: properties.clone(),
        };
        (1..=count).map(settings).collect()
    }

    /// Writes the files that the server reads at its start.
    pub(super) fn write(&self, directory: &Path, port: u16) {
        let write = |name: &str, text: &str| {
            fs::write(directory.join(name), text).expect("a file in the server's directory");
        };
        fs::create_dir_all(directory.join("data")).expect("a directory for the server's data");
        write("data/myid", &self.number.to_string());
        if let Some(secure) = &self.secure {
            write("server.pem", &secure.own);
            write("ca.pem", &secure.ca);
        }
        write("zoo.cfg", &self.text(directory, port));
    }

    /// Returns the text of `zoo.cfg`; if it has a setting twice, the last line counts.
    fn text(&self, directory: &Path, port: u16) -> String {
        let directory = directory.display();
        let mut text = format!(
            "tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n\
             dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n"
        );
        for (index, (peer, election)) in self.ensemble.iter().enumerate() {
            let number = index + 1;
            writeln!(text, "server.{number}=127.0.0.1:{peer}:{election}").expect("memory");
        }
        if let Some(port) = self.tls_port {
            write!(
                text,
                "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={directory}/server.pem\nssl.keyStore.type=PEM\n\
                 ssl.trustStore.location={directory}/ca.pem\nssl.trustStore.type=PEM\n\
                 ssl.clientAuth=none\nssl.hostnameVerification=false\n\
                 authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n"
            )
            .expect("memory");
        }
        text + &self.lines.join("\n") + "\n"
    }

    pub(super) fn arguments(&self, directory: &Path) -> Vec<String> {
        let netty = self.secure.iter().flat_map(|_| NETTY);
        let mut arguments = java(PLAIN.into_iter().chain(netty));
        if self.purpose == Purpose::Tests {
            arguments.extend(PROMPT_CONTAINERS.map(str::to_owned));
        }
        arguments.extend_from_slice(&self.properties);
        arguments.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned());
        arguments.push(directory.join("zoo.cfg").display().to_string());
        arguments
    }
}

/// Returns the arguments of `java` for ZooKeeper's command line at `address`, up to the command.
pub(super) fn control_arguments(address: &str) -> Vec<String> {
    let mut arguments = java(PLAIN.into_iter().chain(["commons-cli.jar"]));
    let program = ["org.apache.zookeeper.ZooKeeperMain", "-server", address];
    arguments.extend(program.map(str::to_owned));
    arguments
}

/// Returns the arguments of `java` up to the name of the program.
fn java<'a>(libraries: impl Iterator<Item = &'a str>) -> Vec<String> {
    let libraries: Vec<String> = libraries
        .map(|library| format!("{LIBRARIES}/{library}"))
        .collect();
    let fixed = [
        "-Xms32m",
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dzookeeper.admin.enableServer=false",
        "-cp",
    ];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).to_vec();
    arguments.push(libraries.join(":"));
    arguments
}
