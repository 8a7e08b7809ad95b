//! One claim's stand in the line of its lock: taken, found again, given up.

use std::sync::Arc;

use lock_core::{Claim, Clock, FencingToken, Keeper, LockGuard, LockRequest, Mode, Moment, Result};
use zookeeper_client::Error as ZooKeeperError;

use crate::client::Client;
use crate::error::{is_loss_of_connection, translate};
use crate::layout::claim_prefix;
use crate::line::{Queued, line_up};
use crate::places::Place;
use crate::session::{Answer, Node, Session};

/// The claim of one acquisition.
pub(crate) struct Stand<'a> {
    client: &'a Client,
    keeper: &'a Keeper,
    request: &'a LockRequest,
    /// The lock's node.
    lock: Arc<str>,
    claim: Claim,
    session: Option<Arc<Session>>,
    node: Known,
}

/// What is known of the claim's node.
enum Known {
    Absent,
    /// It was asked for, and no answer came.
    Unanswered,
    There(Arc<Node>),
}

/// What a look at the line has told.
pub(crate) struct Look {
    /// When the request was sent by which the session was confirmed last: a hold counts from then.
    pub(crate) confirmed: Moment,
    pub(crate) line: Vec<Queued>,
    /// Where we are in it.
    pub(crate) index: usize,
    /// The lock's node.
    pub(crate) lock: Arc<str>,
    pub(crate) session: Arc<Session>,
}

/// When the last thing was sent that has been confirmed, and what is in the lock's node.
type Seen = (Moment, Vec<String>);

impl<'a> Stand<'a> {
    pub(crate) fn new(
        client: &'a Client,
        keeper: &'a Keeper,
        request: &'a LockRequest,
    ) -> Result<Self> {
        Ok(Self {
            client,
            keeper,
            request,
            lock: client.layout.lock(&request.key).into(),
            claim: keeper.claim(request)?,
            session: None,
            node: Known::Absent,
        })
    }

    /// Looks at the line, after joining it if that has not been done. It goes on over lost connections,
    /// which the driver makes again, and over lost sessions, with a new claim.
    ///
    /// # Cancel safety
    ///
    /// Called again, it goes on where it was.
    pub(crate) async fn look(&mut self) -> Result<Look> {
        loop {
            let session = self.session().await?;
            let seen = match &self.node {
                Known::Absent => self.join(&session).await?,
                Known::Unanswered => self.find(&session).await?,
                Known::There(_) => self.see(&session).await?,
            };
            let (Some((confirmed, children)), Known::There(node)) = (seen, &self.node) else {
                // As in removals: whoever limits this has to get a turn.
                tokio::task::yield_now().await;
                continue;
            };
            let name = node.name();
            let line = line_up(children, Some(name));
            let Some(index) = line.iter().position(|queued| queued.name == name) else {
                // Somebody has removed our node.
                self.start_over()?;
                continue;
            };
            return Ok(Look {
                confirmed,
                line,
                index,
                lock: Arc::clone(&self.lock),
                session,
            });
        }
    }

    /// The modes of those in the line, without joining it.
    pub(crate) async fn look_from_outside(&mut self) -> Result<Vec<Mode>> {
        loop {
            let session = self.session().await?;
            let children = match session.look(&self.lock).await {
                Err(ZooKeeperError::NoNode) => Vec::new(),
                answer => match self.settle(&session, answer)? {
                    Some(children) => children,
                    None => continue,
                },
            };
            let line = line_up(children, None);
            return Ok(line.into_iter().map(|queued| queued.mode).collect());
        }
    }

    /// Makes the guard, for a look that has found nobody in the way; `None` when it came too late.
    pub(crate) fn granted(self, look: &Look) -> Result<Option<LockGuard>> {
        let Known::There(node) = &self.node else {
            return Ok(None);
        };
        let token = FencingToken::from_grant(u64::try_from(node.czxid).unwrap_or(u64::MAX))?;
        let is_permit = matches!(self.request.mode, Mode::Permit { .. });
        if is_permit && look.index + 1 < look.line.len() {
            // Whoever is next waits for us to be let in, not for us to go.
            look.session.signal(&node.path);
        }
        let ttl = look.session.ttl(self.claim.id().lock_delay());
        Ok(self.claim.granted(token, look.confirmed, ttl))
    }

    /// Leaves the line.
    ///
    /// # Errors
    ///
    /// When nobody knows whether it has been left: dropping the stand goes on with it.
    pub(crate) async fn withdraw(&mut self) -> Result<()> {
        if let (Known::There(node), Some(session)) = (&self.node, &self.session) {
            session.remove(&node.path).await.map_err(translate)?;
            self.client.left(self.claim.id().owner());
            self.not_there();
        }
        Ok(())
    }

    async fn session(&mut self) -> Result<Arc<Session>> {
        if let Some(session) = &self.session {
            if !session.has_ended() {
                return Ok(Arc::clone(session));
            }
            self.start_over()?;
        }
        let session = self.client.session(self.claim.id().store_ttl()).await?;
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Makes our node. The request is announced before it is sent, so that whatever becomes of us, what
    /// it has made is removed.
    async fn join(&mut self, session: &Arc<Session>) -> Result<Option<Seen>> {
        let id = self.claim.id();
        let (owner, prefix) = (id.owner(), claim_prefix(id));
        let place = Place::new(session, &self.lock, &prefix, self.claim.loss());
        self.client.places.enter(owner, place);
        let sent = self.claim.sending();
        self.node = Known::Unanswered;
        let joined = session.join(&self.lock, &prefix).await;
        match joined.node {
            Ok(node) => {
                self.client.heard.note(sent);
                self.found(node);
                if joined.children == Err(ZooKeeperError::NoNode) {
                    return Ok(None);
                }
                let children = self.settle(session, joined.children)?;
                Ok(children.map(|children| (sent, children)))
            }
            Err(error) if session.has_ended() || is_loss_of_connection(&error) => {
                self.settle(session, Err(error))
            }
            Err(error) => {
                // The server has said that it made nothing.
                self.not_there();
                if error == ZooKeeperError::NoNode {
                    self.make_lock(session).await?;
                    Ok(None)
                } else {
                    Err(translate(error))
                }
            }
        }
    }

    /// Makes the lock's node, and those above it.
    async fn make_lock(&mut self, session: &Arc<Session>) -> Result<()> {
        self.client.makes(&self.lock, session);
        let levels = self.client.layout.levels(&self.lock);
        match session.make(levels).await {
            // Whoever left a name of the same level has removed that meanwhile.
            Err(ZooKeeperError::NoNode) => {}
            made => {
                self.settle(session, made)?;
            }
        }
        Ok(())
    }

    /// Looks whether our node was made, although no answer came.
    async fn find(&mut self, session: &Arc<Session>) -> Result<Option<Seen>> {
        let prefix = claim_prefix(self.claim.id());
        let sent = Clock::Boot.now();
        let seen = session.look_and_confirm(&self.lock).await;
        if seen == Err(ZooKeeperError::NoNode) {
            self.not_there();
            return Ok(None);
        }
        let Some(children) = self.settle(session, seen)? else {
            return Ok(None);
        };
        let found = session.find(&self.lock, &prefix, &children).await;
        let Some(found) = self.settle(session, found)? else {
            return Ok(None);
        };
        let Some(node) = found else {
            self.not_there();
            return Ok(None);
        };
        self.client.heard.note(sent);
        self.found(node);
        Ok(Some((sent, children)))
    }

    /// Looks again. Where a state that the members have agreed on has our node and nobody before it, each later one has
    /// nobody before it either, as long as our node is there. So it may be an old one that a server shows us, and what
    /// counts is how long the session lives.
    async fn see(&mut self, session: &Arc<Session>) -> Result<Option<Seen>> {
        let (confirmed, answer) = match session.confirmed_lately(self.request.ttl()) {
            Some(confirmed) => (confirmed, session.list(&self.lock).await),
            None => {
                let sent = Clock::Boot.now();
                let answer = session.look_and_confirm(&self.lock).await;
                if answer.is_ok() {
                    self.client.heard.note(sent);
                }
                (sent, answer)
            }
        };
        if answer == Err(ZooKeeperError::NoNode) {
            self.start_over()?;
            return Ok(None);
        }
        let Some(children) = self.settle(session, answer)? else {
            return Ok(None);
        };
        Ok(Some((confirmed, children)))
    }

    fn found(&mut self, node: Node) {
        let node = Arc::new(node);
        let owner = self.claim.id().owner();
        self.client
            .places
            .update(owner, |place| place.node = Some(Arc::clone(&node)));
        self.client.joined(&self.lock);
        self.node = Known::There(node);
    }

    fn not_there(&mut self) {
        self.claim.refused();
        self.client.places.leave(self.claim.id().owner());
        self.node = Known::Absent;
    }

    /// Gives up whatever there may be of the claim, and goes on with a new one.
    fn start_over(&mut self) -> Result<()> {
        self.claim = self.keeper.claim(self.request)?;
        self.session = None;
        self.node = Known::Absent;
        Ok(())
    }

    /// What an answer comes to: `None` when one has to ask again.
    fn settle<T>(&mut self, session: &Session, answer: Answer<T>) -> Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(_) if session.has_ended() => {
                self.start_over()?;
                Ok(None)
            }
            Err(error) if is_loss_of_connection(&error) => Ok(None),
            Err(error) => Err(translate(error)),
        }
    }
}
