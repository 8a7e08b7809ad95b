//! The floor on ZooKeeper: creating an ephemeral node, and deleting it.

use std::sync::Mutex;

use polylock::zookeeper::zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use crate::bench::store::Location;
use crate::problem::Problem;

/// The parent of the floor's nodes.
const PARENT: &str = "/polylock-bench-raw";

pub(crate) struct Floor {
    client: Client,
    /// The number of locks created so far.
    count: Mutex<u64>,
}

pub(crate) struct RawLock {
    client: Client,
    node: String,
    options: CreateOptions<'static>,
}

impl Floor {
    pub(super) async fn open(location: &Location) -> Result<Self, Problem> {
        let client = Client::connect(&location.addresses(2181).join(",")).await?;
        if let Some((name, password)) = &location.user {
            let auth = format!("{name}:{password}");
            client.auth("digest", auth.as_bytes()).await?;
        }
        // Not a container: servers remove an empty container, and this node is empty between two
        // turns.
        let parent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client
            .mkdir(&format!("{}{PARENT}", chroot(location)), &parent)
            .await?;
        let client = match chroot(location) {
            root if root.is_empty() => client,
            root => client
                .chroot(root)
                .map_err(|_| "the chroot of the URL is no path")?,
        };
        Ok(Self {
            client,
            count: Mutex::default(),
        })
    }

    pub(super) fn commands() -> Vec<String> {
        vec![
            "create node, ephemeral".to_owned(),
            "delete node".to_owned(),
        ]
    }

    pub(super) async fn lock(&self, _key: &str) -> Result<RawLock, Problem> {
        let number = {
            let mut count = self.count.lock().map_err(|_| "a task has panicked")?;
            *count += 1;
            *count
        };
        Ok(RawLock {
            client: self.client.clone(),
            node: format!("{PARENT}/{:08x}-{number}", fastrand::u32(..)),
            options: CreateMode::Ephemeral.with_acls(Acls::anyone_all()),
        })
    }

    pub(super) async fn finish(self) -> Result<(), Problem> {
        match self.client.delete(PARENT, None).await {
            // Another bench may use the node, too.
            Ok(()) | Err(Error::NoNode | Error::NotEmpty) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl RawLock {
    pub(super) async fn lock_and_release(&mut self) -> Result<(), Problem> {
        self.client.create(&self.node, &[], &self.options).await?;
        self.client.delete(&self.node, None).await?;
        Ok(())
    }
}

fn chroot(location: &Location) -> String {
    match location.path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}
