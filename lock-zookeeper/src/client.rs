//! What one client has: its sessions, and where its claims and holds are in them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Clock, Heard, HoldId, KeeperHome, Moment, OwnerId, Patrol, PerRuntime, Released, Result,
};
use zookeeper_client::Error as ZooKeeperError;

use crate::ZooKeeperConfig;
use crate::error::{config_error, no_answer, translate};
use crate::layout::Layout;
use crate::parents::Parents;
use crate::places::{Place, Places};
use crate::refused::Refused;
use crate::removal::remove;
use crate::session::Session;
use crate::station::{OPENING_LIMIT, Station, Terms};
use crate::wire::Wire;

/// How long a release waits for its answer, so that it ends within a second.
const RELEASE_LIMIT: Duration = Duration::from_millis(900);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) layout: Layout,
    pub(crate) places: Arc<Places>,
    pub(crate) patrol: Patrol,
    pub(crate) heard: Heard,
    pub(crate) refused: Refused,
    stations: PerRuntime<Station>,
    parents: Arc<Parents>,
}

impl Client {
    /// Opens a session for holds of `ttl`; returns the client, and the shortest and the longest session that
    /// it can have.
    pub(crate) async fn connect(
        config: &ZooKeeperConfig,
        home: &KeeperHome,
        ttl: Duration,
    ) -> Result<(Self, RangeInclusive<Duration>)> {
        check_chroot(&config.chroot)?;
        let layout = Layout::new(&config.chroot, &config.namespace);
        let patrol = Patrol::new(home.clone());
        let parents = Arc::new(Parents::new(layout.clone(), patrol.clone(), home.clone()));
        let terms = Terms {
            wire: Arc::new(Wire::new(config)?),
            places: Arc::default(),
            parents: Arc::clone(&parents),
            patrol: patrol.clone(),
        };
        let places = Arc::clone(&terms.places);
        let client = Self {
            parents,
            stations: PerRuntime::new(home.clone(), move |runtime| {
                Station::new(terms.clone(), runtime.clone())
            }),
            layout,
            places,
            patrol,
            heard: Heard::new(),
            refused: Refused::default(),
        };
        let session = client.session(ttl).await?;
        let asking = session.reads_together();
        let answer = client.patrol.within(OPENING_LIMIT, asking).await;
        // Nothing else says that it cannot.
        if let Some(Err(error @ ZooKeeperError::Unimplemented)) = answer {
            return Err(translate(error));
        }
        let bounds = client.stations.here()?.bounds().await?;
        Ok((client, bounds))
    }

    /// The session for holds that it is to keep for `ttl`, lock delay included, on the caller's runtime, or at the keeper's.
    pub(crate) async fn session(&self, ttl: Duration) -> Result<Arc<Session>> {
        self.stations.here()?.session(ttl).await
    }

    /// Removes the node of a hold or claim, behind whatever was asked for it before.
    pub(crate) async fn release(&self, hold: &HoldId) -> Result<Released> {
        let Some(place) = self.places.get(hold.owner()) else {
            return Ok(Released::AlreadyLost);
        };
        let begun = Clock::Boot.now();
        self.places
            .update(hold.owner(), |place| place.released = Some(begun));
        let removing = remove(&place);
        let removed = self.patrol.within(RELEASE_LIMIT, removing).await;
        match removed.unwrap_or_else(|| Err(no_answer(RELEASE_LIMIT))) {
            Ok(true) => {
                self.left(hold.owner());
                Ok(Released::Released)
            }
            Ok(false) => {
                self.left(hold.owner());
                Ok(Released::AlreadyLost)
            }
            Err(error) => {
                self.stuck(hold, &place, begun);
                Err(error)
            }
        }
    }

    /// Notes that the node of a lock is about to be made: if nobody joins its line after all, it goes.
    pub(crate) fn makes(&self, lock: &Arc<str>, session: &Arc<Session>) {
        let (lock, session) = (Arc::clone(lock), Arc::clone(session));
        self.parents.left(lock, session);
    }

    /// Notes that a claim stands in the line of a lock.
    pub(crate) fn joined(&self, lock: &str) {
        self.parents.joined(lock);
    }

    /// Notes that nothing is left of a claim.
    pub(crate) fn left(&self, owner: OwnerId) {
        if let Some(place) = self.places.leave(owner) {
            place.session.touch();
            self.parents.left(place.lock, place.session);
        }
    }

    /// A node does not go by itself as long as its session lives. One that cannot be removed within its
    /// ttl goes together with its session, which is closed when nothing else is in it; until then it is
    /// tried again now and then.
    fn stuck(&self, hold: &HoldId, place: &Place, begun: Moment) {
        let since = place.stuck_since.unwrap_or(begun);
        self.places
            .update(hold.owner(), |place| place.stuck_since = Some(since));
        if Clock::Boot.now().since(since) >= hold.ttl() * 9 / 10 {
            place.session.retire();
        }
    }
}

fn check_chroot(chroot: &str) -> Result<()> {
    let levels = chroot.strip_prefix('/').map(|levels| levels.split('/'));
    let is_well_formed = match levels {
        None => chroot.is_empty(),
        Some(mut levels) => levels.all(|level| !matches!(level, "" | "." | "..")),
    };
    if is_well_formed {
        return Ok(());
    }
    Err(config_error(format!(
        "{chroot:?} is no chroot: write it like /app/locks, or leave it out"
    )))
}
