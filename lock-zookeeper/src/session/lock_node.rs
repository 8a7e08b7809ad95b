//! Makes and removes the nodes of locks.

use zookeeper_client::{CreateMode, Error as ZooKeeperError};

use crate::error::DriverResult;
use crate::session::requests::Session;

/// The data of the containers that we make. A server does not tell which nodes are containers, and those
/// of others are not ours to remove.
const OURS: &[u8] = b"polylock";

impl Session {
    /// Makes the nodes at `levels` that are missing, from the top; those that are not kept are
    /// containers, which the server removes at some time after they have become empty.
    ///
    /// # Errors
    ///
    /// The path of the level that is missing and may not be made, or which one could not be made for another reason.
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
                // Whoever may not make a level may find it there, which what is made below it shows. If nothing can
                // be, the lowest such level is missing.
                Err(ZooKeeperError::NoNode) => {
                    refused = refused.or(Some((ZooKeeperError::NoNode, path)))
                }
                Err(error) => refused = Some((error, path)),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Removes the container at `path` if it is ours and nothing is in it; whether it has gone.
    pub(crate) async fn delete_if_empty(&self, path: &str) -> DriverResult<bool> {
        let connection = self.link.current()?;
        let client = connection.client();
        match connection.answer(client.get_data(path)).await {
            Err(ZooKeeperError::NoNode) => return Ok(true),
            Ok((data, stat)) if data == OURS && stat.num_children == 0 => {}
            looked => return looked.map(|_| false),
        }
        match connection.answer(client.delete(path, None)).await {
            // Somebody has come meanwhile.
            Err(ZooKeeperError::NotEmpty) => Ok(false),
            Ok(()) | Err(ZooKeeperError::NoNode) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
