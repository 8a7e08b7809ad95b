//! The table of faults for the cases with child processes, a crowd of waiters, a new server, elections,
//! owners, sets, inspections, upgrades or slots.

use crate::bites::bites;

bites! {
    NeverExpires {
        processes::a_killed_holder_blocks_for_its_ttl_and_no_longer: "waited out",
        processes::a_killed_leader_is_followed_within_its_term: "waited out",
        processes::a_killed_permit_comes_back_beside_a_living_one: "the permit of a killed holder",
        processes::a_program_that_aborts_blocks_for_its_ttl_and_no_longer: "waited out",
        processes::returning_from_main_frees_the_lock_by_its_ttl_at_the_latest: "free by its ttl",
    }
    KilledWaitersStay {
        processes::a_killed_waiter_delays_nobody_behind_it: "the place of a killed waiter gone",
    }
    ForgetsTheCrowd {
        waiting::a_crowd_is_served_or_told_busy: "all of a crowd served",
    }
    ForgetsAtSwitchover {
        lease::a_switchover_leaves_one_holder_and_serves_the_waiter: "two holders",
    }
    RenewalProlongsAll {
        processes::a_living_reader_does_not_keep_a_killed_one_alive: "over long ago",
    }
    RemembersNames {
        processes::used_names_leave_no_memory_behind: "kB more after",
    }
    BelievesInLongerTtl {
        upgrades::a_conversion_on_a_frozen_store_deceives_nobody: "conversions on a frozen store",
        elections::the_work_of_a_leader_ends_before_the_next_one_leads: "two leaders",
        elections::a_blocked_thread_does_not_keep_a_leader: "two leaders",
        processes::a_leader_that_stood_still_does_not_go_on: "works on",
        processes::a_process_that_stood_still_knows_at_once_and_its_late_write_is_refused: "its first look",
    }
    ForgetsTheDelay {
        processes::a_killed_holder_keeps_its_key_closed_for_its_lock_delay: "after the kill",
        processes::a_killed_holder_keeps_its_key_closed_for_its_minimum: "before its minimum hold",
        processes::a_program_that_ends_keeps_its_key_closed_for_its_minimum: "before its minimum hold",
    }
    ReleasesOnlyWhenAsked {
        upgrades::a_conversion_dropped_at_every_poll_leaves_nothing: "granted to a waiter",
        processes::a_runtime_that_is_dropped_releases_what_its_tasks_held: "free after",
        processes::a_guard_dropped_before_a_shutdown_in_the_background_is_released: "free after",
        processes::a_shutdown_with_a_timeout_releases_what_its_tasks_held: "free after",
        processes::a_guard_dropped_after_its_runtime_is_released: "free after",
    }
    TokensStandStill {
        processes::a_process_that_stood_still_knows_at_once_and_its_late_write_is_refused: "the late write",
    }
    OwnersAreStrangers {
        owners::an_owner_enters_its_own_lock: "its own",
        owners::an_owner_asks_no_store: "no answer",
        owners::a_lost_grant_is_lost_for_its_owner: "its own",
    }
    AllOwnersAreOne {
        owners::an_owner_does_not_enter_the_lock_of_another: "was granted beside",
    }
    GrantsEverything {
        elections::a_leader_resigns_when_its_work_is_done: "two leaders",
        sets::a_set_is_taken_whole_or_not_at_all: "granted although a lock of it is held",
    }
    WritesBesideReader {
        modes::readers_and_writers_exclude: "granted although",
        sets::a_set_is_not_granted_beside_a_reader: "although a reader holds one of its locks",
    }
    HidesHolders {
        inspection::a_holder_is_seen_by_another_client: "there is one holder",
        processes::an_observer_sees_who_follows_a_killed_leader: "the leader observed",
    }
    ForgetsTheLabel {
        inspection::a_holder_is_seen_by_another_client: "the label",
    }
    ShowsWhoAsks {
        processes::a_holder_in_another_process_is_seen: "the process of the holder",
    }
    ShowsOneHolder {
        inspection::all_holders_of_a_key_are_seen: "there are two holders",
    }
    ShowsWaiters {
        inspection::a_waiter_is_no_holder: "a waiter holds nothing",
    }
    ShowsFormerHolders {
        inspection::nobody_is_seen_after_a_release: "the holder has released",
    }
    ShowsTheFirstToken {
        elections::observers_see_terms_with_growing_numbers: "a leader observed",
    }
    PushesOnce {
        sets::sets_in_any_order_never_wait_in_a_circle: "all sets taken",
    }
    ArmsTooLate {
        sets::a_set_dropped_at_every_poll_leaves_nothing: "granted to a waiter",
    }
    UpgradeableBesideAnother {
        upgrades::an_upgradeable_holder_shares_with_readers_only: "granted although one is held",
    }
    UpgradesBesideReaders {
        upgrades::an_upgrade_excludes_readers: "beside a reader",
        upgrades::upgrades_lose_no_update: "holders at once",
    }
    ConvertsInTwoSteps {
        upgrades::no_waiter_gets_in_during_a_conversion: "was not upgraded",
    }
    DowngradeKeepsTheMode {
        upgrades::a_downgrade_lets_readers_in_and_no_writer: "a reader in beside it",
    }
    ConversionKeepsTheToken {
        upgrades::an_upgrade_excludes_readers: "follows",
    }
    ConversionEndsRenewals {
        upgrades::a_converted_hold_is_renewed: "ended renewals",
    }
    ConvertsWhatIsGone {
        upgrades::a_removed_hold_is_not_converted: "a removed hold was upgraded",
    }
    EmulatesModes {
        upgrades::other_conversions_are_unsupported: "it is not declared",
    }
    SlotsRepeat {
        modes::each_permit_has_a_slot_of_its_own: "[0, 0, 0, 0]",
        modes::slots_never_repeat_under_contention: "given twice",
    }
    SlotsGrow {
        modes::each_permit_has_a_slot_of_its_own: "the only free slot",
    }
}
