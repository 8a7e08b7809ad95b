//! The page: one file that loads no other files.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::conditions::Conditions;
use crate::contender::Kind;
use crate::figures::Comparison;
use crate::plan;
use crate::report::advice::advice;
use crate::report::charts;
use crate::report::document::Criterion;
use crate::report::metrics::{self, short};
use crate::stage::problem::Problem;

const STYLE: &str = include_str!("page.css");

pub(crate) fn page(comparison: &Comparison) -> Result<String, Problem> {
    let mut drawn = Vec::new();
    for (chart, about) in charts::all(comparison) {
        drawn.push((chart.svg()?, about));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Which store should hold the locks?" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Which store should hold the locks?" }
                (conditions(comparison))
                (advised(comparison))
                h2 { "At a glance" }
                div .picture { (PreEscaped(charts::picture(comparison)?)) }
                h2 { "All figures" }
                (figures(comparison))
                h2 { "The words of the articles, and what was measured" }
                (document(comparison))
                h2 { "Chart by chart" }
                div .charts {
                    @for (svg, about) in &drawn {
                        figure { (PreEscaped(svg)) figcaption { (about) } }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn conditions(comparison: &Comparison) -> Markup {
    let Conditions {
        processors,
        optimized,
        disk_sync_ms,
        ..
    } = &comparison.conditions;
    html! {
        @if !optimized {
            p .warning { "This program was built without optimization: build it with --release before you compare." }
        }
        @if !comparison.failed.is_empty() {
            p .warning { "Stopped by a problem, and missing here: " (comparison.failed.join(", ")) "." }
        }
        @for one in &comparison.missing {
            p .warning { "Without " (one) "." }
        }
        p {
            "Measured through polylock on one machine with " (processors) " processors, where the disk takes "
            (short(*disk_sync_ms)) " ms to have something for good. Clients and servers share its processors, so that "
            "the differences count, and not the absolute figures. Servers that the program has started itself are single ones "
            "(a cluster adds a round trip among its members to each write); MariaDB, etcd and ZooKeeper write every lock to the disk, Redis does not."
        }
    }
}

fn advised(comparison: &Comparison) -> Markup {
    html! {
        div .advice {
            @for one in advice(comparison) {
                section {
                    h3 { (one.question) }
                    p .answer { (one.answer) }
                    ul { @for reason in &one.reasons { li { (reason) } } }
                }
            }
        }
        p {
            "Which of them you run already weighs more than most differences here: the code stays the same, and the store is one line of configuration. "
            "One process alone needs none of them: memory."
        }
    }
}

fn figures(comparison: &Comparison) -> Markup {
    html! {
        div .scrolling { table .figures {
            thead { tr { th {} @for store in &comparison.stores { th scope="col" { (store.name) } } } }
            @for section in metrics::sections(comparison) {
                tbody {
                    tr .section { th scope="rowgroup" colspan=(comparison.stores.len() + 1) { (section.name) } }
                    @for metric in &section.metrics {
                        tr { th scope="row" { (metric.name) } @for cell in &metric.cells { td { (cell) } } }
                    }
                }
            }
        } }
        p .note {
            "p50 and p99: half and 99 of 100 were not longer. Coupons: two instances sell, one of them fails, one crashes and one is held up. "
            "Refunds: three peers, killed at random, and banks that want 20 ms between two payments; “later” is what a compensation run or the queue has paid. "
            "Killed holders have a ttl of " (short(plan::TTL.as_secs_f64())) " s, or the least that the store can give."
        }
    }
}

fn document(comparison: &Comparison) -> Markup {
    let stores = &comparison.stores;
    html! {
        div .scrolling { table .document {
            thead { tr { th {} @for store in stores { th scope="col" { (store.name) } } } }
            tbody {
                @for criterion in Criterion::ALL {
                    tr {
                        th scope="row" { (criterion.name()) }
                        @for store in stores {
                            td { p { (criterion.words(store.kind)) } p .fact { (criterion.facts(store)) } }
                        }
                    }
                }
            }
        } }
        @if stores.iter().any(|store| matches!(store.kind, Kind::Memory | Kind::Etcd)) {
            p .note { "The articles do not know memory and etcd: those words are ours." }
        }
    }
}
