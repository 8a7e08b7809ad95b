//! The table of faults, and of the cases that must fail for each fault.

/// Makes a test of each case that must fail for a fault, with a part of the failure's message.
macro_rules! bites {
    ($($fault:ident { $($group:ident::$case:ident: $says:literal,)+ })+) => {
        $(
            #[expect(non_snake_case, reason = "named as the fault is")]
            mod $fault {
                $(
                    #[test]
                    fn $case() {
                        let name = concat!(stringify!($group), "::", stringify!($case));
                        crate::caught::assert_caught(crate::fault::Fault::$fault, name, $says);
                    }
                )+
            }
        )+

        pub(crate) const CAUGHT: &[&str] =
            &[$($(concat!(stringify!($group), "::", stringify!($case))),+),+];
    };
}

pub(crate) use bites;

bites! {
    GrantsEverything {
        exclusion::a_held_lock_is_refused: "granted although another client holds it",
    }
    LooksBeforeItTakes {
        exclusion::critical_sections_never_overlap: "two holders",
    }
    LetsItselfIn {
        exclusion::a_held_lock_is_refused: "granted although the same client holds it",
    }
    BlocksTheThread {
        exclusion::one_thread_is_enough: "can call blocking only",
    }
    OneLockForAll {
        exclusion::keys_are_independent: "refused although it is free",
    }
    FoldsNames {
        exclusion::similar_names_are_different_locks: "is taken for one of",
    }
    LosesOddNames {
        exclusion::odd_names_exclude: "granted although another client holds that very name",
    }
    FreesWhoeverHolds {
        exclusion::refused_clients_free_nothing: "granted although",
        exclusion::stale_guards_free_nobody_else: "had been removed",
    }
    ReleaseComesTwice {
        exclusion::late_releases_free_nobody_else: "granted although only the holder before",
    }
    BusyIsAnError {
        exclusion::a_held_lock_is_refused: "never how a held lock is told",
    }
    TriesForEver {
        waiting::no_wait_answers_at_once: "an answer to No",
    }
    WaitsTooLong {
        waiting::a_limited_wait_ends_in_time: "end late",
    }
    GivesUpEarly {
        waiting::a_limited_wait_ends_in_time: "was given up after",
    }
    PollsSlowly {
        waiting::a_release_wakes_the_waiter: "a store that pushes wakes waiters at once",
    }
    PushesOnce {
        waiting::every_waiter_is_served: "all of 16 waiters served",
        modes::waiters_get_all_permits_that_come_back: "as many waiters in as permits came back",
    }
    CleansUpSilently {
        waiting::cancelled_waiters_pass_the_wake_up_on: "the waiter behind a cancelled one",
    }
    IgnoresRemovals {
        waiting::a_removal_wakes_the_waiter: "the waiter served after a removal",
    }
    LastComesFirst {
        waiting::waiters_of_one_client_are_served_in_order: "were served as",
        waiting::waiters_of_all_clients_are_served_in_order: "were served as",
    }
    FavoursTheHolder {
        waiting::a_busy_client_starves_nobody: "a client served while another one",
        turns::clients_take_turns: "turns of a client",
        turns::a_writer_gets_in_between_readers: "turns of a client",
        turns::a_reader_gets_in_between_writers: "turns of a client",
        turns::permits_and_writers_take_turns: "turns of a client",
    }
    WaitsInTheDoor {
        waiting::a_waiter_blocks_no_other_key: "an answer to a request",
    }
    WaitsForOneTtl {
        waiting::a_wait_outlasts_its_ttl: "a waiter gave up",
    }
    LongWaitsOverflow {
        waiting::a_very_long_wait_is_a_wait: "a waiter gave up",
    }
    LooksBeforeItListens {
        waiting::no_wake_up_is_lost: "to and fro",
    }
    HearsOfOneKey {
        waiting::many_keys_are_waited_for_at_once: "50 waiters served",
    }
    FrozenIsBusy {
        lease::waits_end_on_a_frozen_store: "called held by a store that does not answer",
    }
    HangsOnFrozenStore {
        lease::waits_end_on_a_frozen_store: "on a frozen store",
    }
    NeverExpires {
        waiting::a_crash_is_waited_out: "the waiter served after a crash",
        modes::a_crashed_permit_comes_back: "the permit of a crashed client back",
    }
    NeverRenews {
        lease::a_hold_outlives_its_ttl: "was lost after",
        lease::a_short_lease_beside_long_ones_is_renewed: "was lost after",
    }
    RenewsTheFirst {
        lease::many_holds_are_renewed_together: "AlreadyLost",
    }
    RenewsForLess {
        lease::a_short_freeze_loses_nothing: "lost ",
    }
    RenewsBlindly {
        lease::a_frozen_store_ends_holds_in_time: "after its last renewal had expired",
        lease::with_lock_stops_frozen_work: "still at work after a ttl",
        lease::everything_works_after_a_thaw: "two clients hold it after a thaw",
    }
    UnknownIsLost {
        lease::a_short_freeze_loses_nothing: "lost by a freeze",
    }
    RenewalResurrects {
        lease::a_removal_is_noticed: "a holder told that its hold was removed",
    }
    RenewalComesLate {
        lease::nothing_is_renewed_after_its_release: "released/",
    }
    IgnoresLosses {
        lease::every_watcher_hears_of_a_loss: "all of 16 watchers told",
        lease::with_lock_stops_removed_work: "work stopped after a removal",
    }
    CallsRemovalExpiry {
        lease::a_removal_is_noticed: "Expired",
    }
    BelievesInLongerTtl {
        lease::a_hold_outlives_its_ttl: "longer than its ttl",
        lease::a_blocked_runtime_is_not_deceived: "two holders",
        cancellation::a_guard_outlives_its_runtime: "granted ",
    }
    TakesAnyTtl {
        lease::a_ttl_out_of_range_is_refused: "is outside of",
    }
    TakesFewTtls {
        lease::every_declared_ttl_can_be_had: "is declared, but",
    }
    HoldsDieWithClient {
        lease::a_hold_outlives_its_client: "was lost after",
    }
    ForgetsTheDelay {
        delay::a_lost_key_stays_closed_for_its_delay: "before its lock delay was over",
        delay::a_key_lost_on_a_frozen_store_stays_closed: "before its lock delay was over",
        minimum::what_is_lost_stays_closed_for_its_minimum: "before its minimum hold was over",
        minimum::a_lock_delay_and_a_minimum_count_both: "before its minimum hold was over",
    }
    DelaysWhatIsReleased {
        delay::what_is_given_back_has_no_lock_delay: "granted to a waiter",
        delay::what_was_never_held_has_no_lock_delay: "granted to a waiter",
    }
    TakesAnyDelay {
        delay::a_lock_delay_out_of_range_is_refused: "is not declared",
    }
    TakesShortDelays {
        delay::the_longest_lock_delay_can_be_had: "failed, which is never",
    }
    ReleasesBeforeTheMinimum {
        minimum::what_is_given_back_stays_closed_for_its_minimum: "before its minimum hold was over",
        minimum::waiters_of_its_own_client_wait_for_a_minimum: "before the minimum hold was over",
        minimum::a_renewed_hold_stays_closed_for_its_minimum: "before its minimum hold was over",
        minimum::a_shutdown_keeps_a_minimum: "its minimum hold is not over",
    }
    KeepsBeyondTheMinimum {
        minimum::a_hold_beyond_its_minimum_is_given_back_at_once: "was refused although it is free",
        minimum::what_was_never_held_has_no_minimum: "granted to a waiter",
    }
    TakesAnyMinimum {
        minimum::a_minimum_out_of_range_is_refused: "is not declared",
    }
    TakesShortMinimums {
        minimum::the_longest_minimum_can_be_had: "failed, which is never",
    }
    ArmsTooLate {
        cancellation::acquire_dropped_at_every_poll: "Exclusive was dropped at poll",
        cancellation::shared_acquire_dropped_at_every_poll: "Shared was dropped at poll",
        cancellation::permit_acquire_dropped_at_every_poll: "Permit { of: 2 } was dropped at poll",
        cancellation::a_thousand_cancelled_acquisitions_leave_nothing: "left on the store",
    }
    ForgetsWaiters {
        cancellation::waiting_dropped_at_every_poll: "waiting for Exclusive was dropped",
        cancellation::shared_waiting_dropped_at_every_poll: "waiting for Shared was dropped",
        cancellation::permit_waiting_dropped_at_every_poll: "waiting for Permit { of: 2 } was",
    }
    KeepsPlacesOfWhoGaveUp {
        residue::given_up_waits_leave_nothing: "waiters left",
        turns::a_writer_that_has_gone_keeps_no_reader_out: "after a writer has gone",
        turns::a_writer_that_has_gone_keeps_no_permit_back: "after a writer has gone",
    }
    CleanUpOvertakes {
        lease::what_is_dropped_on_a_frozen_store_is_undone: "left on the store",
        cancellation::acquire_dropped_at_every_poll: "was dropped at poll",
    }
    ReleasesOnlyWhenAsked {
        cancellation::a_dropped_guard_releases: "a guard of Exclusive was dropped",
        cancellation::a_guard_dropped_outside_a_runtime_releases: "outside a runtime",
        cancellation::a_panic_releases: "its holder panicked",
        cancellation::an_aborted_task_releases: "were aborted",
        cancellation::a_client_dropped_after_its_guard_releases: "client were dropped",
        cancellation::a_hold_ends_with_its_runtime: "of its holder was shut down",
        cancellation::a_waiter_ends_with_its_runtime: "of a waiter was shut down",
    }
    ReleasesOnlyOnce {
        cancellation::a_dropped_release_still_releases: "the release was dropped at poll",
    }
    RemembersKeys {
        residue::a_thousand_names_leave_nothing: "1000 left on the store",
    }
    LosesPermits {
        residue::abandoned_permits_leave_nothing: "",
    }
    WaitsThroughShutdown {
        waiting::a_try_waits_for_a_release_of_its_own_client: "refused ",
        shutdown::a_shutdown_cuts_acquisitions_off: "the end of 40 waits",
    }
    ShutsNothingDown {
        shutdown::a_shutdown_gives_everything_back: "says it is held after a shutdown",
        shutdown::a_shutdown_at_any_moment_leaves_nothing: "",
    }
    ShutsDownBlindly {
        shutdown::a_thousand_holds_are_shut_down_together: "left after a confirmed shutdown",
    }
    EmulatesModes {
        modes::undeclared_modes_are_unsupported: "has to be refused as unsupported",
        modes::readers_share: "Shared with a ttl of",
    }
    UndeclaredIsBusy {
        modes::undeclared_modes_are_unsupported: "has to be refused as unsupported: Ok(None)",
        modes::permits_up_to_their_number: "is not declared",
    }
    ReadsBesideWriter {
        modes::readers_and_writers_exclude: "granted although a writer holds it",
        modes::mixed_modes_never_conflict: "two holders",
    }
    ReadersExclude {
        modes::readers_share: "refused although it is free",
        modes::readers_enter_together_after_a_writer: "all waiting readers in together",
    }
    ReadersLeaveTogether {
        modes::readers_share: "granted although eight readers are left",
    }
    ReadersExpireTogether {
        modes::a_crashed_reader_frees_only_itself: "held by someone else",
    }
    ReadersOvertake {
        modes::a_writer_is_served_while_readers_come_and_go: "a writer served while",
    }
    OnePermitTooMany {
        modes::permits_up_to_their_number: "granted although 4 permits are taken",
    }
    FirstPermitCounts {
        modes::each_permit_counts_against_its_own_number: "granted although 2 permits are held",
    }
    PermitsOvertake {
        modes::one_of_many_does_not_overtake_one_of_few: "granted although it is held",
    }
    PermitBesideWriter {
        modes::permits_and_writers_exclude: "granted although Exclusive is held",
    }
    PermitBesideReader {
        modes::permits_and_readers_exclude: "granted although Shared is held",
    }
    TokensStandStill {
        fencing::tokens_grow_over_clients: "not greater than",
    }
    TokensOfClient {
        fencing::tokens_grow_over_new_clients: "not greater than",
    }
    TokensOfMode {
        fencing::tokens_grow_over_modes: "not greater than",
    }
    TokensOfArrival {
        fencing::tokens_grow_under_contention: "not greater than",
    }
    TokensForgetRemoval {
        fencing::tokens_grow_after_a_removal: "not greater than",
    }
    TokensForgetExpiry {
        fencing::tokens_grow_after_a_crash: "not greater than",
    }
    ShowsNothing {
        residue::holds_are_seen: "does not show a hold",
    }
}
