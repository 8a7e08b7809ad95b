//! Creates and deletes the nodes of locks.

use zookeeper_client::{CreateMode, Error as ZooKeeperError};

use crate::error::DriverResult;
use crate::session::requests::Session;

/// The data that marks the containers of this library. A server does not report which nodes are
/// containers, and the nodes of other clients are not deleted.
const OURS: &[u8] = b"polylock";

impl Session {
    /// Creates the missing nodes of `levels` from the top. All levels below the chroot are
    /// containers, which the server deletes some time after they have become empty.
    ///
    /// # Errors
    ///
    /// The error and the path of a missing level that the user may not create, or of a level that
    /// failed for another reason.
    pub(crate) async fn make<'a>(
        &self,
        levels: impl Iterator<Item = (&'a str, bool)>,
    ) -> Result<(), (ZooKeeperError, &'a str)> {
        let connection = match self.link.current() {
            Ok(connection) => connection,
            Err(error) => return Err((error, "/")),
        };
        let making = levels.map(|(path, is_kept)| {
            let (mode, data) = if is_kept {
                (CreateMode::Persistent, &[][..])
            } else {
                (CreateMode::Container, OURS)
            };
            let options = mode.with_acls(self.acls);
            (path, connection.client().create(path, data, &options))
        });
        let making: Vec<_> = making.collect();
        let mut refused = None;
        for (path, made) in making {
            match connection.answer(made).await {
                Ok(_) | Err(ZooKeeperError::NodeExists) => refused = None,
                // The user may lack the permission to create a level that exists. The creation of
                // the level below shows that. If no lower level can be created, the lowest refused
                // level is missing.
                Err(ZooKeeperError::NoNode) => {
                    refused = refused.or(Some((ZooKeeperError::NoNode, path)))
                }
                Err(error) => refused = Some((error, path)),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Deletes the container at `path` if this library created it and it is empty. Returns true if
    /// the node is gone.
    pub(crate) async fn delete_if_empty(&self, path: &str) -> DriverResult<bool> {
        let connection = self.link.current()?;
        let client = connection.client();
        match connection.answer(client.get_data(path)).await {
            Err(ZooKeeperError::NoNode) => return Ok(true),
            Ok((data, stat)) if data == OURS && stat.num_children == 0 => {}
            looked => return looked.map(|_| false),
        }
        match connection.answer(client.delete(path, None)).await {
            // A claim has entered in the meantime.
            Err(ZooKeeperError::NotEmpty) => Ok(false),
            Ok(()) | Err(ZooKeeperError::NoNode) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
