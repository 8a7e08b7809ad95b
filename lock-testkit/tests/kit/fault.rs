//! What can be wrong with a backend, one thing at a time.

/// One thing that is wrong with a backend, each a mistake that some lock library has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None: the backend keeps the contract.
    Nothing,

    // Who is let in.
    /// Everybody is.
    GrantsEverything,
    /// Looks in one request and takes in the next.
    LooksBeforeItTakes,
    /// Lets a client in a second time.
    LetsItselfIn,
    /// All keys are one lock.
    OneLockForAll,
    /// Folds case and drops spaces at the end, as a collation does.
    FoldsNames,
    /// Does not lock keys with control characters.
    LosesOddNames,
    /// Frees whatever is there without asking whose it is.
    FreesWhoeverHolds,
    /// A release reaches the store once more after a while, and frees whatever is there.
    ReleaseComesTwice,

    // Waiting.
    /// Reports a held lock as an error.
    BusyIsAnError,
    /// Waits when told not to.
    TriesForEver,
    /// Waits twice as long as it may.
    WaitsTooLong,
    /// Waits half as long as it should.
    GivesUpEarly,
    /// Looks again every 300 ms although it claims to push.
    PollsSlowly,
    /// Pushes only for the first release of a key.
    PushesOnce,
    /// A clean-up in the background frees the lock, but wakes nobody.
    CleansUpSilently,
    /// A removed hold wakes nobody.
    IgnoresRemovals,
    /// Whoever came last is served first.
    LastComesFirst,
    /// Who held the lock last stands in line before all others, and gets some time to come back.
    FavoursTheHolder,
    /// Someone who waits keeps everybody else of the client from doing anything.
    WaitsInTheDoor,
    /// Waits no longer than the ttl of its request.
    WaitsForOneTtl,
    /// Counts a wait in milliseconds of 32 bits.
    LongWaitsOverflow,
    /// Begins to listen after it has looked.
    LooksBeforeItListens,
    /// Hears of the key that it waited for last, and of no other.
    HearsOfOneKey,
    /// Blocks the thread, which a runtime with one thread cannot do without.
    BlocksTheThread,
    /// Forgets those that come when a hundred wait.
    ForgetsTheCrowd,
    /// A place in the queue outlasts the process that waits.
    KilledWaitersStay,
    /// A deadline does not count while the store does not answer.
    HangsOnFrozenStore,
    /// Calls held what a store that does not answer says nothing about.
    FrozenIsBusy,

    // Leases.
    /// Holds never expire.
    NeverExpires,
    /// Renewals fail, all of them.
    NeverRenews,
    /// Renews the first hold of a batch and confirms all.
    RenewsTheFirst,
    /// A renewal is for two fifths of the ttl only, and the client does not say so.
    RenewsForLess,
    /// Confirms a renewal that the store has not answered.
    RenewsBlindly,
    /// Takes a slow answer for a loss.
    UnknownIsLost,
    /// A renewal prolongs all holds of its key.
    RenewalProlongsAll,
    /// What a server takes over from the one before is empty.
    ForgetsAtSwitchover,
    /// A renewal brings back what is gone.
    RenewalResurrects,
    /// A renewal reaches the store once more after a while, and brings back what is gone.
    RenewalComesLate,
    /// Confirms holds that are gone.
    IgnoresLosses,
    /// Gives the wrong reason for a removal.
    CallsRemovalExpiry,
    /// Believes to hold for four times as long as the store says.
    BelievesInLongerTtl,
    /// Takes any ttl, whatever it declares.
    TakesAnyTtl,
    /// Takes fewer ttls than it declares.
    TakesFewTtls,
    /// Renews only as long as the client's handle lives.
    HoldsDieWithClient,

    // Lock delays.
    /// Asks the store for the ttl only.
    ForgetsTheDelay,
    /// Keeps also closed what was given back.
    DelaysWhatIsReleased,
    /// Takes any lock delay, whatever it declares.
    TakesAnyDelay,
    /// Takes shorter lock delays than it declares.
    TakesShortDelays,

    // Clean-up.
    /// Arms the claim when the answer is there, and not before the request is sent.
    ArmsTooLate,
    /// A cancelled waiter keeps its place.
    ForgetsWaiters,
    /// A waiter that gave up keeps its place.
    KeepsPlacesOfWhoGaveUp,
    /// A clean-up overtakes the request that it is to undo.
    CleanUpOvertakes,
    /// Nothing is released in the background.
    ReleasesOnlyWhenAsked,
    /// A release that was begun is taken for done.
    ReleasesOnlyOnce,
    /// A key that was used once is remembered for ever.
    RemembersKeys,
    /// A client remembers every name that it used.
    RemembersNames,
    /// Of two permits of one client one is given back.
    LosesPermits,

    // Shutdown.
    /// Waiters do not hear of a shutdown.
    WaitsThroughShutdown,
    /// Says that it is shut down, and goes on.
    ShutsNothingDown,
    /// Says that it is shut down before the store has confirmed it.
    ShutsDownBlindly,

    // Modes.
    /// A mode that is not declared is emulated.
    EmulatesModes,
    /// A mode that is not declared is refused as if it were held.
    UndeclaredIsBusy,
    /// Readers are let in beside a writer.
    ReadsBesideWriter,
    /// Readers exclude each other.
    ReadersExclude,
    /// The first reader to leave takes all others along.
    ReadersLeaveTogether,
    /// The first reader to expire takes all others along.
    ReadersExpireTogether,
    /// Readers overtake waiting writers.
    ReadersOvertake,
    /// One permit more than there are.
    OnePermitTooMany,
    /// Every permit counts against the number of the first.
    FirstPermitCounts,
    /// A claim for one of many permits is let in before one for few that came earlier.
    PermitsOvertake,
    /// Permits are let in beside a writer.
    PermitBesideWriter,
    /// Permits are let in beside readers.
    PermitBesideReader,

    // Tokens.
    /// The token never changes.
    TokensStandStill,
    /// Each client counts for itself.
    TokensOfClient,
    /// Each mode counts for itself.
    TokensOfMode,
    /// The token tells who asked first, not who was granted first.
    TokensOfArrival,
    /// The counter goes with the hold that is removed.
    TokensForgetRemoval,
    /// The counter goes with the hold that expires.
    TokensForgetExpiry,

    // The store under test.
    /// It does not show what is on it.
    ShowsNothing,
}
