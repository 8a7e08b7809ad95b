//! Timeouts of requests, without a timer for each.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::backend::{Attendance, Clock, KeeperRuntime, Moment, OnDemand};
use crate::mutex::Mutex;

/// Maximum sleep of the timer task while there are requests.
const ROUND: Duration = Duration::from_millis(250);

/// Number of polls that a request gets after its limit. A runtime that was busy until then has not
/// read its sockets, and the reading task may have to wake others before the request is answered.
const LAST_TURNS: u32 = 3;

/// The time within which a runtime that makes progress runs a task that is ready.
const TURN_LIMIT: Duration = Duration::from_millis(200);

/// Timeouts for requests that are nearly always answered long before their limit.
///
/// A tokio timer per request costs a system call to wake the runtime's driver: 9 % of an
/// uncontended lock and release on a local Redis. One timer task on the client's [`KeeperRuntime`]
/// serves all requests instead, and is woken only for a limit before its next round. It measures
/// real time, also on a runtime with paused time. With [the caller's
/// runtime](KeeperRuntime::caller), each request has its own timer.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::{Deadlines, KeeperRuntime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadlines = Deadlines::new(KeeperRuntime::caller());
/// let silent = std::future::pending::<()>();
/// assert!(deadlines.timeout(Duration::from_millis(5), silent).await.is_none());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Deadlines {
    rounds: Arc<Timeouts>,
    keeper_runtime: KeeperRuntime,
}

#[derive(Debug, Default)]
struct Timeouts {
    state: Mutex<WatchedRequests>,
    attended: OnDemand,
    changed: Notify,
}

#[derive(Debug, Default)]
struct WatchedRequests {
    /// The pending requests, by the end of their limit.
    watched: BTreeMap<(Moment, u64), Waker>,
    /// Number of requests so far, which numbers each request.
    requests: u64,
    /// Number of requests at the last round.
    requests_before: u64,
    /// When the timer task makes its next round, while it sleeps.
    sleeps_until: Option<Moment>,
}

impl Deadlines {
    /// Creates timeouts whose timer task runs on `keeper_runtime`.
    pub fn new(keeper_runtime: KeeperRuntime) -> Self {
        Self {
            rounds: Arc::default(),
            keeper_runtime,
        }
    }

    /// Waits for `request`, at most for `limit`; `None` if it took longer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the request.
    pub async fn timeout<F: Future>(&self, limit: Duration, request: F) -> Option<F::Output> {
        let ends = Clock::Boot.now().plus(limit);
        if !self.keeper_runtime.outlives_callers() {
            // A shared timer task would run on one caller's runtime, which may not be driven.
            return tokio::select! {
                biased;
                answer = request => Some(answer),
                () = Clock::Boot.sleep_until(ends) => None,
            };
        }
        let mut request = pin!(request);
        let in_time = self.until(ends, request.as_mut()).await;
        if in_time.is_some() {
            return in_time;
        }
        let last_turns = async {
            for _ in 0..LAST_TURNS {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            answer = request => Some(answer),
            () = last_turns => None,
        }
    }

    /// Like [`timeout`](Self::timeout), but waits for 200 ms only if `runtime`, which drives the
    /// connection of the request, makes no progress.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the request.
    pub async fn timeout_while_driven<F: Future>(
        &self,
        limit: Duration,
        runtime: &Handle,
        request: F,
    ) -> Option<F::Output> {
        let stands_still = async {
            let turn = self.timeout(TURN_LIMIT, runtime.spawn(async {})).await;
            if matches!(turn, Some(Ok(()))) {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            answer = self.timeout(limit, request) => answer,
            () = stands_still => None,
        }
    }

    /// Waits for `request` until `ends`.
    async fn until<F: Future>(&self, ends: Moment, mut request: Pin<&mut F>) -> Option<F::Output> {
        let mut watch = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = request.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            if Clock::Boot.now() >= ends {
                return Poll::Ready(None);
            }
            let number = watch.as_ref().map(|watch: &RequestTimeout| watch.key.1);
            let key = (ends, number.unwrap_or_else(|| self.rounds.next_number()));
            self.watch(key, context.waker());
            watch.get_or_insert_with(|| RequestTimeout {
                rounds: Arc::clone(&self.rounds),
                key,
            });
            Poll::Pending
        })
        .await
    }

    /// Registers `waker` to be woken at the end of the limit in `key`.
    fn watch(&self, key: (Moment, u64), waker: &Waker) {
        let mut state = self.rounds.state.lock();
        match state.watched.get_mut(&key) {
            Some(known) => known.clone_from(waker),
            None => {
                state.watched.insert(key, waker.clone());
            }
        }
        if let Some(attendance) = self.rounds.attended.begin() {
            state.sleeps_until = None;
            drop(state);
            // Without a runtime no task can be started; the next poll tries again.
            if let Ok(keeper_runtime) = self.keeper_runtime.handle() {
                let timer = Timer {
                    rounds: Arc::clone(&self.rounds),
                    attendance: Some(attendance),
                };
                keeper_runtime.spawn(timer.run());
            }
        } else if state.sleeps_until.take_if(|wake| *wake > key.0).is_some() {
            drop(state);
            self.rounds.changed.notify_one();
        }
    }
}

/// A pending request. Dropping it removes its timeout.
struct RequestTimeout {
    rounds: Arc<Timeouts>,
    key: (Moment, u64),
}

impl Drop for RequestTimeout {
    fn drop(&mut self) {
        self.rounds.state.lock().watched.remove(&self.key);
    }
}

impl Timeouts {
    fn next_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.requests += 1;
        state.requests
    }

    /// Wakes every request whose limit has ended.
    ///
    /// Returns the time of the next round; `None` if there was no request since the last round.
    fn make(&self) -> Option<Moment> {
        let now = Clock::Boot.now();
        let mut over = Vec::new();
        let mut state = self.state.lock();
        while let Some(first) = state.watched.first_entry() {
            if first.key().0 > now {
                break;
            }
            over.push(first.remove());
        }
        let idle = state.watched.is_empty() && state.requests == state.requests_before;
        state.requests_before = state.requests;
        let first = state.watched.keys().next().map(|(ends, _)| *ends);
        let next = now.plus(ROUND);
        let next = first.map_or(next, |first| first.min(next));
        state.sleeps_until = Some(next);
        if idle {
            self.attended.end();
        }
        drop(state);
        over.into_iter().for_each(Waker::wake);
        (!idle).then_some(next)
    }
}

/// The timer task: makes rounds until no request is left.
struct Timer {
    rounds: Arc<Timeouts>,
    attendance: Option<Attendance>,
}

impl Timer {
    async fn run(self) {
        while let Some(next) = self.rounds.make() {
            // Both branches are cancel safe: an unconsumed notification stays for the next
            // iteration.
            tokio::select! {
                () = self.rounds.changed.notified() => {}
                () = Clock::Boot.sleep_until(next) => {}
            }
        }
    }
}

/// Wakes the pending requests if the task is dropped with its runtime, so that they start another.
impl Drop for Timer {
    fn drop(&mut self) {
        self.attendance = None;
        let watched: Vec<Waker> = self.rounds.state.lock().watched.values().cloned().collect();
        watched.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::io::Write;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    fn at_home() -> Deadlines {
        Deadlines::new(KeeperRuntime::thread().unwrap())
    }

    #[tokio::test]
    async fn an_answer_in_time_is_given_and_forgotten() {
        let deadlines = at_home();
        let soon = Duration::from_millis(5);
        assert_eq!(deadlines.timeout(soon, ready(1)).await, Some(1));
        let later = tokio::time::sleep(soon);
        assert_eq!(
            deadlines.timeout(Duration::from_secs(60), later).await,
            Some(())
        );
        assert!(deadlines.rounds.state.lock().watched.is_empty());
    }

    #[tokio::test]
    async fn limits_end_in_time_whatever_the_timer_was_waiting_for() {
        let deadlines = at_home();
        for limit in [200, 20, 1, 60].map(Duration::from_millis) {
            let begin = Clock::Boot.now();
            assert_eq!(deadlines.timeout(limit, pending::<()>()).await, None);
            let taken = Clock::Boot.now().since(begin);
            assert!(taken >= limit, "{taken:?} of {limit:?}");
            assert!(
                taken < limit + Duration::from_secs(2),
                "{taken:?} of {limit:?}"
            );
        }
        let (first, second) = tokio::join!(
            deadlines.timeout(Duration::from_secs(60), tokio::time::sleep(ROUND * 2)),
            deadlines.timeout(Duration::from_millis(10), pending::<()>()),
        );
        assert_eq!((first, second), (Some(()), None));
    }

    /// The kernel has received the answer, but the busy runtime has not polled the socket yet.
    #[tokio::test]
    async fn what_has_arrived_while_the_runtime_was_busy_is_an_answer() {
        let deadlines = at_home();
        let limit = Duration::from_millis(40);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = TcpStream::connect(address);
        let (accepted, connected) = tokio::join!(listener.accept(), connecting);
        let (sender, mut stream) = (accepted.unwrap().0.into_std().unwrap(), connected.unwrap());
        let (answer, answered) = tokio::sync::oneshot::channel();
        let reading = async {
            let _asked = answer.send(stream.read_u8().await.unwrap());
        };
        let busy = async {
            // Let the two other futures be polled first, so that they find no answer.
            tokio::task::yield_now().await;
            (&sender).write_all(&[7]).unwrap();
            let begin = Clock::Boot.now();
            while Clock::Boot.now().since(begin) < limit * 2 {
                std::hint::spin_loop();
            }
        };
        let asking = deadlines.timeout(limit, answered);
        let ((), (), outcome) = tokio::join!(busy, reading, asking);
        assert_eq!(outcome, Some(Ok(7)));
    }

    #[tokio::test]
    async fn a_late_answer_counts_while_its_runtime_is_driven() {
        let deadlines = at_home();
        let (late, long) = (tokio::time::sleep(TURN_LIMIT * 2), Duration::from_secs(60));
        let here = Handle::current();
        let answer = deadlines.timeout_while_driven(long, &here, late).await;
        assert_eq!(answer, Some(()));
        let idle = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let waiting = deadlines.timeout_while_driven(long, idle.handle(), pending::<()>());
        assert_eq!(waiting.await, None, "a runtime that nothing drives");
        idle.shutdown_background();
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_end_a_limit() {
        let deadlines = at_home();
        let day = tokio::time::sleep(Duration::from_secs(86_400));
        assert_eq!(
            deadlines.timeout(Duration::from_secs(60), day).await,
            Some(())
        );
    }

    #[tokio::test]
    async fn an_idle_patrol_goes_home_and_comes_back() {
        let deadlines = at_home();
        assert_eq!(
            deadlines
                .timeout(Duration::from_millis(1), pending::<()>())
                .await,
            None
        );
        let begin = Clock::Boot.now();
        while deadlines.rounds.attended.begin().is_none() {
            assert!(
                Clock::Boot.now().since(begin) < Duration::from_secs(10),
                "still there"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            deadlines
                .timeout(Duration::from_millis(1), pending::<()>())
                .await,
            None
        );
    }
}
