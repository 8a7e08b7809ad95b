//! The list of cases, and the macro that creates a test function for each of them.

use crate::{Case, Group, Need};

/// Calls the macro `$then` with `$with` and the list of all cases, by group and with their needs.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_every_case {
    ([$($then:tt)+] [$($with:tt)*]) => {
        $($then)+! {
            [$($with)*]
            Exclusion exclusion {
                a_held_lock_is_refused: [],
                critical_sections_never_overlap: [],
                one_thread_is_enough: [],
                keys_are_independent: [],
                similar_names_are_different_locks: [],
                odd_names_exclude: [],
                refused_clients_free_nothing: [],
                late_releases_free_nobody_else: [],
                stale_guards_free_nobody_else: [Remove],
            }
            Waiting waiting {
                no_wait_answers_at_once: [],
                a_limited_wait_ends_in_time: [],
                a_very_long_wait_is_a_wait: [],
                a_wait_outlasts_its_ttl: [],
                a_release_wakes_the_waiter: [],
                every_waiter_is_served: [],
                many_keys_are_waited_for_at_once: [],
                no_wake_up_is_lost: [Push],
                waiters_of_one_client_are_served_in_order: [],
                waiters_of_all_clients_are_served_in_order: [Fair],
                cancelled_waiters_pass_the_wake_up_on: [],
                a_removal_wakes_the_waiter: [Remove],
                a_crash_is_waited_out: [Crash],
                a_busy_client_starves_nobody: [],
                a_waiter_blocks_no_other_key: [],
                a_try_waits_for_a_release_of_its_own_client: [],
                a_crowd_is_served_or_told_busy: [],
            }
            Lease lease {
                a_hold_outlives_its_ttl: [],
                a_hold_outlives_its_client: [],
                many_holds_are_renewed_together: [],
                a_short_lease_beside_long_ones_is_renewed: [],
                nothing_is_renewed_after_its_release: [],
                a_watch_hears_of_the_release: [],
                a_blocked_runtime_is_not_deceived: [],
                a_ttl_out_of_range_is_refused: [],
                every_declared_ttl_can_be_had: [],
                a_removal_is_noticed: [Remove],
                every_watcher_hears_of_a_loss: [Remove],
                with_lock_stops_removed_work: [Remove],
                a_frozen_store_ends_holds_in_time: [Freeze],
                with_lock_stops_frozen_work: [Freeze],
                a_short_freeze_loses_nothing: [Freeze],
                everything_works_after_a_thaw: [Freeze],
                waits_end_on_a_frozen_store: [Freeze],
                what_is_dropped_on_a_frozen_store_is_undone: [Freeze],
                a_switchover_leaves_one_holder_and_serves_the_waiter: [Switchover],
            }
            Delay delay {
                a_lost_key_stays_closed_for_its_delay: [LockDelay],
                a_key_lost_on_a_frozen_store_stays_closed: [LockDelay, Freeze],
                what_is_given_back_has_no_lock_delay: [LockDelay],
                what_was_never_held_has_no_lock_delay: [LockDelay],
                a_lock_delay_out_of_range_is_refused: [],
                the_longest_lock_delay_can_be_had: [LockDelay],
            }
            Minimum minimum {
                what_is_given_back_stays_closed_for_its_minimum: [MinHold],
                what_is_lost_stays_closed_for_its_minimum: [MinHold],
                waiters_of_its_own_client_wait_for_a_minimum: [MinHold],
                a_hold_beyond_its_minimum_is_given_back_at_once: [MinHold],
                a_renewed_hold_stays_closed_for_its_minimum: [MinHold],
                a_lock_delay_and_a_minimum_count_both: [LockDelay, MinHold],
                what_was_never_held_has_no_minimum: [MinHold],
                a_minimum_out_of_range_is_refused: [],
                the_longest_minimum_can_be_had: [MinHold, Remove],
                a_shutdown_keeps_a_minimum: [MinHold, Shutdown],
            }
            Owners owners {
                an_owner_enters_its_own_lock: [],
                an_owner_does_not_enter_the_lock_of_another: [],
                an_owner_asks_no_store: [Freeze],
                a_lost_grant_is_lost_for_its_owner: [Remove],
            }
            Sets sets {
                a_set_is_taken_whole_or_not_at_all: [],
                a_set_is_not_granted_beside_a_reader: [Shared],
                sets_in_any_order_never_wait_in_a_circle: [],
                a_set_dropped_at_every_poll_leaves_nothing: [],
            }
            Elections elections {
                a_leader_resigns_when_its_work_is_done: [],
                the_work_of_a_leader_ends_before_the_next_one_leads: [Freeze],
                a_blocked_thread_does_not_keep_a_leader: [Freeze],
                observers_see_terms_with_growing_numbers: [Inspect],
            }
            Inspection inspection {
                a_holder_is_seen_by_another_client: [Inspect],
                nobody_is_seen_after_a_release: [Inspect],
                all_holders_of_a_key_are_seen: [Inspect],
                a_waiter_is_no_holder: [Inspect],
            }
            Cancellation cancellation {
                acquire_dropped_at_every_poll: [],
                shared_acquire_dropped_at_every_poll: [Shared],
                permit_acquire_dropped_at_every_poll: [Permits],
                waiting_dropped_at_every_poll: [],
                shared_waiting_dropped_at_every_poll: [Shared],
                permit_waiting_dropped_at_every_poll: [Permits],
                a_thousand_cancelled_acquisitions_leave_nothing: [],
                a_dropped_release_still_releases: [],
                a_dropped_guard_releases: [],
                a_guard_dropped_outside_a_runtime_releases: [],
                a_panic_releases: [],
                an_aborted_task_releases: [],
                a_client_dropped_after_its_guard_releases: [],
                a_hold_ends_with_its_runtime: [],
                a_waiter_ends_with_its_runtime: [],
                a_guard_outlives_its_runtime: [],
            }
            Shutdown shutdown {
                a_shutdown_gives_everything_back: [Shutdown],
                a_thousand_holds_are_shut_down_together: [Shutdown],
                a_shutdown_cuts_acquisitions_off: [Shutdown],
                a_shutdown_at_any_moment_leaves_nothing: [Shutdown],
            }
            Modes modes {
                undeclared_modes_are_unsupported: [],
                readers_share: [Shared],
                readers_and_writers_exclude: [Shared],
                readers_enter_together_after_a_writer: [Shared],
                permits_up_to_their_number: [Permits],
                waiters_get_all_permits_that_come_back: [Permits],
                each_permit_counts_against_its_own_number: [Permits],
                each_permit_has_a_slot_of_its_own: [Permits, Slots],
                slots_never_repeat_under_contention: [Permits, Slots],
                permits_and_writers_exclude: [Permits],
                permits_and_readers_exclude: [Shared, Permits],
                mixed_modes_never_conflict: [],
                a_writer_is_served_while_readers_come_and_go: [Shared, Fair],
                one_of_many_does_not_overtake_one_of_few: [Permits, Fair],
                a_crashed_reader_frees_only_itself: [Shared, Crash],
                a_crashed_permit_comes_back: [Permits, Crash],
            }
            Upgrades upgrades {
                an_upgradeable_holder_shares_with_readers_only: [Upgrades],
                an_upgrade_excludes_readers: [Upgrades],
                a_downgrade_lets_readers_in_and_no_writer: [Upgrades],
                no_waiter_gets_in_during_a_conversion: [Upgrades],
                a_converted_hold_is_renewed: [Upgrades],
                a_conversion_dropped_at_every_poll_leaves_nothing: [Upgrades],
                a_conversion_on_a_frozen_store_deceives_nobody: [Upgrades, Freeze],
                a_removed_hold_is_not_converted: [Upgrades, Remove],
                other_conversions_are_unsupported: [],
                upgrades_lose_no_update: [Upgrades],
            }
            Turns turns {
                clients_take_turns: [Turns],
                a_writer_gets_in_between_readers: [Shared, Turns],
                a_reader_gets_in_between_writers: [Shared, Turns],
                permits_and_writers_take_turns: [Permits, Turns],
                a_writer_that_has_gone_keeps_no_reader_out: [Shared],
                a_writer_that_has_gone_keeps_no_permit_back: [Permits],
            }
            Fencing fencing {
                tokens_grow_over_clients: [],
                tokens_grow_over_new_clients: [],
                tokens_grow_over_modes: [],
                tokens_grow_under_contention: [],
                tokens_grow_after_a_removal: [Remove],
                tokens_grow_after_a_crash: [Crash],
                tokens_are_decimal_text: [],
            }
            Residue residue {
                holds_are_seen: [],
                a_thousand_names_leave_nothing: [],
                given_up_waits_leave_nothing: [],
                abandoned_permits_leave_nothing: [Permits],
            }
            Processes processes {
                a_killed_holder_blocks_for_its_ttl_and_no_longer: [Processes],
                a_killed_holder_keeps_its_key_closed_for_its_lock_delay: [LockDelay, Processes],
                a_killed_holder_keeps_its_key_closed_for_its_minimum: [MinHold, Processes],
                a_program_that_ends_keeps_its_key_closed_for_its_minimum: [MinHold, Processes],
                a_killed_waiter_delays_nobody_behind_it: [Processes],
                a_living_reader_does_not_keep_a_killed_one_alive: [Shared, Processes],
                a_killed_permit_comes_back_beside_a_living_one: [Permits, Processes],
                a_program_that_aborts_blocks_for_its_ttl_and_no_longer: [Processes],
                a_killed_leader_is_followed_within_its_term: [Processes],
                a_leader_that_stood_still_does_not_go_on: [Processes],
                an_observer_sees_who_follows_a_killed_leader: [Inspect, Processes],
                a_holder_in_another_process_is_seen: [Inspect, Processes],
                a_process_that_stood_still_knows_at_once_and_its_late_write_is_refused: [Processes],
                a_runtime_that_is_dropped_releases_what_its_tasks_held: [Processes],
                a_guard_dropped_before_a_shutdown_in_the_background_is_released: [Processes],
                a_shutdown_with_a_timeout_releases_what_its_tasks_held: [Processes],
                a_guard_dropped_after_its_runtime_is_released: [Processes],
                returning_from_main_frees_the_lock_by_its_ttl_at_the_latest: [Processes],
                used_names_leave_no_memory_behind: [Processes],
            }
        }
    };
}

macro_rules! list {
    ([] $($group:ident $module:ident { $($case:ident: [$($need:ident),*],)+ })+) => {
        vec![$($(
            Case {
                group: Group::$group,
                name: stringify!($case),
                needs: &[$(Need::$need),*],
                steps: |bench| Box::pin(crate::cases::$module::$case(bench)),
            },
        )+)+]
    };
}

/// Returns every case of the contract, group by group.
///
/// ```
/// for case in lock_testkit::cases() {
///     println!("{case}, which needs {:?}", case.needs);
/// }
/// ```
pub fn cases() -> Vec<Case> {
    crate::__for_every_case!([list] [])
}

/// Creates a test function for every case of the contract, in one module per group.
///
/// The tests are called `exclusion::a_held_lock_is_refused` and so on.
///
/// The argument is an async function, `async fn(Case) -> impl Store`. Each test calls it for a new
/// store, which no other test uses at the same time. The [`Case`](crate::Case) has a name, which
/// can serve as a namespace, and needs, for example a server that can be frozen.
///
/// Use the macro at most once in a module. The crate needs `lock-testkit` as a dev-dependency, and
/// no further dependency for the macro.
///
/// ```
/// # use std::sync::Arc;
/// # use lock_core::{DistributedLock, MemoryLock};
/// # use lock_testkit::{Case, Store};
/// # struct Memory(MemoryLock);
/// # #[lock_testkit::async_trait]
/// # impl Store for Memory {
/// #     async fn client(&self) -> Arc<dyn DistributedLock> { Arc::new(self.0.new_client()) }
/// #     async fn residue(&self) -> Vec<String> { self.0.claims() }
/// # }
/// async fn new_store(_case: Case) -> Memory {
///     Memory(MemoryLock::new())
/// }
///
/// lock_testkit::conformance!(new_store);
/// # fn main() {}
/// ```
///
/// After the last of these tests, the process prints their [`Summary`](crate::Summary), past the
/// capture of the test harness.
///
/// If the store may be missing on a machine, write `conformance!(new_store, if is_there())`. The
/// tests then leave the cases out where `is_there` returns false; let it print the reason.
#[macro_export]
macro_rules! conformance {
    ($new_store:expr $(,)?) => {
        $crate::conformance!($new_store, if true);
    };
    ($new_store:expr, if $is_there:expr) => {
        async fn __store_under_test(case: $crate::Case) -> impl $crate::Store {
            ($new_store)(case).await
        }

        fn __is_there() -> bool {
            $is_there
        }

        const __TESTS: &str = module_path!();

        $crate::__for_every_case!([$crate::__test_functions] []);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test_functions {
    ([] $($group:ident $module:ident { $($case:ident: $needs:tt,)+ })+) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $case() {
                        $crate::__run_named(
                            super::__TESTS,
                            concat!(stringify!($module), "::", stringify!($case)),
                            super::__is_there,
                            super::__store_under_test,
                        );
                    }
                )+
            }
        )+
    };
}
