//! Random programs of requests and releases, against a model.

use std::collections::HashMap;

use lock_core::backend::Released;
use lock_core::{
    DistributedLock, ErrorKind, FencingToken, LockGuard, LockRequest, MemoryLock, Mode, Owner,
};

use crate::{clients, key};

/// The state that a program of requests and releases should lead to.
#[derive(Default)]
struct Model {
    grants: HashMap<usize, Vec<Grant>>,
}

struct Grant {
    owner: Option<usize>,
    mode: Mode,
    token: FencingToken,
    guards: usize,
}

/// The expected outcome of a request without a wait.
#[derive(Debug, PartialEq)]
enum Expected {
    Enters(FencingToken),
    Granted,
    Refused,
    Unsupported,
}

impl Model {
    fn expect(&self, key: usize, owner: Option<usize>, mode: Mode) -> Expected {
        let grants = self.grants.get(&key).map_or(&[][..], Vec::as_slice);
        let own = grants
            .iter()
            .find(|grant| owner.is_some() && grant.owner == owner);
        if let Some(own) = own {
            return match own.mode == mode {
                true => Expected::Enters(own.token),
                false => Expected::Unsupported,
            };
        }
        let fits = match mode {
            Mode::Exclusive => grants.is_empty(),
            _ => grants.iter().all(|grant| grant.mode == mode),
        };
        let is_full = matches!(mode, Mode::Permit { of } if grants.len() >= of.get() as usize);
        match fits && !is_full {
            true => Expected::Granted,
            false => Expected::Refused,
        }
    }

    fn taken(&mut self, key: usize, owner: Option<usize>, mode: Mode, token: FencingToken) {
        let grants = self.grants.entry(key).or_default();
        if let Some(own) = grants.iter_mut().find(|grant| grant.token == token) {
            own.guards += 1;
        } else {
            grants.push(Grant {
                owner,
                mode,
                token,
                guards: 1,
            });
        }
    }

    fn ended(&mut self, key: usize, token: FencingToken) {
        let grants = self.grants.get_mut(&key).expect("it was granted");
        for grant in grants.iter_mut().filter(|grant| grant.token == token) {
            grant.guards -= 1;
        }
        grants.retain(|grant| grant.guards > 0);
    }
}

/// Runs a random program of requests and releases, by three owners and without an owner.
async fn run_program(locks: &dyn DistributedLock, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let modes = [
        Mode::Exclusive,
        Mode::Exclusive,
        Mode::Shared,
        Mode::permit(2).expect("two permits"),
    ];
    let mut model = Model::default();
    let mut held: Vec<(usize, LockGuard)> = Vec::new();
    for step in 0..random.usize(10..60) {
        if !held.is_empty() && random.u8(0..5) < 2 {
            let (key, guard) = held.swap_remove(random.usize(0..held.len()));
            assert!(guard.is_held(), "program {seed}, step {step}");
            model.ended(key, guard.token());
            match random.bool() {
                true => assert_eq!(guard.release().await.expect("released"), Released::Released),
                false => drop(guard),
            }
            continue;
        }
        let number = random.usize(0..3);
        let owner = Some(random.usize(0..4)).filter(|owner| *owner < 3);
        let mode = *random.choice(&modes).expect("there are some");
        let name = key(&format!("{seed}/{number}"));
        let mut asked = LockRequest::new(name, mode).without_waiting();
        asked.owner = owner.map(|owner| owners[owner].clone());
        let expected = model.expect(number, owner, mode);
        let got = match locks.acquire(asked).await {
            Ok(Some(guard)) => {
                let entered = model.grants.get(&number).into_iter().flatten();
                let entered = entered
                    .map(|grant| grant.token)
                    .any(|token| token == guard.token());
                model.taken(number, owner, mode, guard.token());
                let got = match entered {
                    true => Expected::Enters(guard.token()),
                    false => Expected::Granted,
                };
                held.push((number, guard));
                got
            }
            Ok(None) => Expected::Refused,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                Expected::Unsupported
            }
        };
        assert_eq!(got, expected, "program {seed}, step {step}");
    }
}

/// `LOCK_PROGRAMS` is the number of programs. Default: 2,000.
#[tokio::test]
async fn random_programs_go_as_the_model_says() {
    let programs = std::env::var("LOCK_PROGRAMS").map_or(2_000, |count| count.parse().unwrap());
    let store = MemoryLock::new();
    for locks in clients(&store) {
        for seed in 0..programs {
            run_program(&*locks, seed).await;
        }
    }
    while !store.claims().is_empty() {
        tokio::task::yield_now().await;
    }
}
