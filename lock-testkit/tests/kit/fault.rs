//! The faults that a backend of these tests can have.

/// A fault of a backend. Each is a mistake that a lock library has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The backend has no fault: it keeps the contract.
    Nothing,

    // Exclusion.
    /// Grants every claim.
    GrantsEverything,
    /// Reads the key in one request and takes it in the next.
    LooksBeforeItTakes,
    /// Grants a lock again to the client that already holds it.
    LetsItselfIn,
    /// Treats all keys as one lock.
    OneLockForAll,
    /// Folds case and drops spaces at the end, as a collation does.
    FoldsNames,
    /// Does not lock keys with control characters.
    LosesOddNames,
    /// Frees the lock on a release without comparing the claim id.
    FreesWhoeverHolds,
    /// Sends each release a second time after a while, which frees any hold of the key.
    ReleaseComesTwice,

    // Waiting.
    /// Reports a held lock as an error.
    BusyIsAnError,
    /// Waits although the request does not wait.
    TriesForEver,
    /// Waits twice as long as the request says.
    WaitsTooLong,
    /// Waits half as long as the request says.
    GivesUpEarly,
    /// Polls every 300 ms although it declares push.
    PollsSlowly,
    /// Pushes only the first release of a key.
    PushesOnce,
    /// Frees the lock in a background clean-up, but wakes no waiter.
    CleansUpSilently,
    /// Wakes no waiter when a hold is removed.
    IgnoresRemovals,
    /// Serves the latest waiter first.
    LastComesFirst,
    /// Puts the last holder's client first in the queue, and keeps the key for it for 300 ms.
    FavoursTheHolder,
    /// Blocks all other requests of a client while one request waits.
    WaitsInTheDoor,
    /// Waits no longer than the ttl of its request.
    WaitsForOneTtl,
    /// Counts the milliseconds of a wait in 32 bits.
    LongWaitsOverflow,
    /// Subscribes to releases only after it has read the key.
    LooksBeforeItListens,
    /// Receives releases only of the first key that the client waited for.
    HearsOfOneKey,
    /// Uses `block_in_place`, which panics on a current-thread runtime.
    BlocksTheThread,
    /// Never answers a take while more than 100 claims are on the store.
    ForgetsTheCrowd,
    /// Keeps the place of a waiter whose process was killed.
    KilledWaitersStay,
    /// Ignores the deadline of a request while the store does not answer.
    HangsOnFrozenStore,
    /// Reports a lock as held if the store does not answer.
    FrozenIsBusy,

    // Leases.
    /// Never ends a hold at its ttl.
    NeverExpires,
    /// Fails every renewal.
    NeverRenews,
    /// Renews the first hold of a batch, and confirms all holds.
    RenewsTheFirst,
    /// Renews for two fifths of the ttl, but reports the whole ttl.
    RenewsForLess,
    /// Confirms a renewal that the store has not answered.
    RenewsBlindly,
    /// Reports a loss if the answer to a renewal is slow.
    UnknownIsLost,
    /// Renews all holds of a key with each renewal.
    RenewalProlongsAll,
    /// Loses all data when another server takes over.
    ForgetsAtSwitchover,
    /// Restores a hold that is gone, when it is renewed.
    RenewalResurrects,
    /// Sends each renewal a second time after a while, which restores a hold that is gone.
    RenewalComesLate,
    /// Confirms renewals of holds that are gone.
    IgnoresLosses,
    /// Reports a removed hold as expired.
    CallsRemovalExpiry,
    /// Counts on a hold for four times its ttl.
    BelievesInLongerTtl,
    /// Accepts every ttl, whatever range it declares.
    TakesAnyTtl,
    /// Accepts a smaller range of ttls than it declares.
    TakesFewTtls,
    /// Stops renewals when the client's handle is dropped.
    HoldsDieWithClient,

    // Lock delays.
    /// Requests the ttl from the store without the lock delay.
    ForgetsTheDelay,
    /// Keeps a released key closed until its hold expires, if the hold has a lock delay.
    DelaysWhatIsReleased,
    /// Accepts every lock delay, whatever range it declares.
    TakesAnyDelay,
    /// Accepts only shorter lock delays than it declares.
    TakesShortDelays,

    // Minimum holds.
    /// Releases a hold that is given back before the end of its minimum hold.
    ReleasesBeforeTheMinimum,
    /// Keeps a key with a minimum hold closed until its hold expires.
    KeepsBeyondTheMinimum,
    /// Accepts every minimum hold, whatever range it declares.
    TakesAnyMinimum,
    /// Accepts only shorter minimum holds than it declares.
    TakesShortMinimums,

    // Owners.
    /// Ignores the owner of a request.
    OwnersAreStrangers,
    /// Takes every owner for the same one.
    AllOwnersAreOne,

    // Inspection.
    /// Shows no holder.
    HidesHolders,
    /// Stores no label.
    ForgetsTheLabel,
    /// Shows the process that asks as the holder.
    ShowsWhoAsks,
    /// Shows only one of several holders.
    ShowsOneHolder,
    /// Shows waiters as holders.
    ShowsWaiters,
    /// Shows a holder until the next holder comes.
    ShowsFormerHolders,
    /// Shows the token of the first holder that was seen for all holders.
    ShowsTheFirstToken,

    // Clean-up.
    /// Arms the claim after the answer, not before the request is sent.
    ArmsTooLate,
    /// Keeps the place of a cancelled waiter.
    ForgetsWaiters,
    /// Keeps the place of a waiter whose wait has ended.
    KeepsPlacesOfWhoGaveUp,
    /// Sends a clean-up that overtakes the take that it has to undo.
    CleanUpOvertakes,
    /// Releases nothing in the background.
    ReleasesOnlyWhenAsked,
    /// Treats a release that was begun as done.
    ReleasesOnlyOnce,
    /// Leaves an entry on the store for each key that was used.
    RemembersKeys,
    /// Keeps in the client's memory every name that was used.
    RemembersNames,
    /// Confirms the release of a permit without freeing it, if the key has other claims.
    LosesPermits,

    // Shutdown.
    /// Does not end waits at a shutdown.
    WaitsThroughShutdown,
    /// Confirms a shutdown without shutting anything down.
    ShutsNothingDown,
    /// Confirms a shutdown before the store has confirmed the releases.
    ShutsDownBlindly,

    // Modes.
    /// Emulates modes that it does not declare.
    EmulatesModes,
    /// Reports a lock as held if its mode is not declared.
    UndeclaredIsBusy,
    /// Grants shared locks beside an exclusive lock.
    ReadsBesideWriter,
    /// Grants exclusive locks beside shared locks.
    WritesBesideReader,
    /// Excludes readers from each other.
    ReadersExclude,
    /// Frees all readers when one reader releases.
    ReadersLeaveTogether,
    /// Frees all readers when one reader expires.
    ReadersExpireTogether,
    /// Grants shared locks before writers that wait longer.
    ReadersOvertake,
    /// Grants one permit too many.
    OnePermitTooMany,
    /// Counts every permit against the number of the first permit.
    FirstPermitCounts,
    /// Grants a claim for one of many permits before an earlier claim for one of few.
    PermitsOvertake,
    /// Grants permits beside an exclusive lock.
    PermitBesideWriter,
    /// Grants permits beside shared locks.
    PermitBesideReader,
    /// Gives the slot 0 to every permit.
    SlotsRepeat,
    /// Counts the slots up, and uses none again.
    SlotsGrow,

    // Upgrades.
    /// Grants an upgradeable lock beside another one.
    UpgradeableBesideAnother,
    /// Upgrades while readers hold the key.
    UpgradesBesideReaders,
    /// Releases a hold, and takes it in the other mode afterwards.
    ConvertsInTwoSteps,
    /// Confirms a downgrade, and keeps the key exclusive.
    DowngradeKeepsTheMode,
    /// Gives a converted hold the token that it had.
    ConversionKeepsTheToken,
    /// Fails renewals of converted holds.
    ConversionEndsRenewals,
    /// Converts a hold that is gone.
    ConvertsWhatIsGone,

    // Tokens.
    /// Gives each grant the same token.
    TokensStandStill,
    /// Counts tokens separately for each client.
    TokensOfClient,
    /// Counts tokens separately for each mode.
    TokensOfMode,
    /// Gives tokens in the order of the requests, not of the grants.
    TokensOfArrival,
    /// Resets the token counter when a hold is removed.
    TokensForgetRemoval,
    /// Resets the token counter when a hold expires.
    TokensForgetExpiry,

    // The store under test.
    /// Shows no claims to the test.
    ShowsNothing,
}
