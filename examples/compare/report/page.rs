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
    for group in charts::groups(comparison) {
        let mut charts = Vec::new();
        for (chart, note) in group.charts {
            charts.push((chart.svg()?, note));
        }
        drawn.push((group.heading, charts));
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
                (problems(comparison))
                p {
                    "The same program took the same locks on each store below. What differs is one line of configuration. "
                    "All times are from one machine: compare them with each other, and do not expect them elsewhere."
                }
                (advised(comparison))
                h2 { "What articles say of the stores, and what was measured" }
                (document(comparison))
                @for (heading, charts) in &drawn {
                    h2 { (heading) }
                    div .charts {
                        @for (svg, note) in charts {
                            figure { (PreEscaped(svg)) figcaption { (note) } }
                        }
                    }
                }
                h2 { "All figures" }
                (figures(comparison))
                h2 { "How it was measured" }
                (conditions(comparison))
            }
        }
    };
    Ok(page.into_string())
}

fn problems(comparison: &Comparison) -> Markup {
    html! {
        @if !comparison.conditions.optimized {
            p .warning { "This program was built without optimization: build it with --release before you compare." }
        }
        @if !comparison.failed.is_empty() {
            p .warning { "Stopped by a problem, and missing here: " (comparison.failed.join(", ")) "." }
        }
        @for one in &comparison.missing {
            p .warning { "Without " (one) "." }
        }
    }
}

fn conditions(comparison: &Comparison) -> Markup {
    let Conditions {
        processors,
        disk_sync_ms,
        ..
    } = &comparison.conditions;
    html! {
        p {
            "One machine with " (processors) " processors ran clients and servers together. Its disk confirms a write after "
            (short(*disk_sync_ms)) " ms. MariaDB, etcd and ZooKeeper write every lock to the disk; Redis does not."
        }
        p {
            "Servers that the program started itself are single ones. "
            "A cluster adds a round trip among its members to each write."
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
            "If you already run one of these stores, that weighs more than most differences here. "
            "A single process needs none of them: memory is enough."
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
            "p50 and p99: half of all, and 99 of 100, took no longer. Coupons: two instances sell; one request fails, one instance crashes, and one is held up. "
            "Refunds: three peers, killed at random, and banks that want 20 ms between two payments; “later” is what a compensation run or the queue has paid. "
            "Killed holders have a ttl of " (short(plan::TTL.as_secs_f64())) " s, or the least that the store can give."
        }
    }
}

fn document(comparison: &Comparison) -> Markup {
    let stores = &comparison.stores;
    html! {
        table .document {
            thead { tr { th {} @for store in stores { th scope="col" { (store.name) } } } }
            tbody {
                @for criterion in Criterion::ALL {
                    tr {
                        th scope="row" { (criterion.name()) }
                        @for store in stores {
                            td data-store=(store.name) { p { (criterion.words(store.kind)) } p .fact { (criterion.facts(store)) } }
                        }
                    }
                }
            }
        }
        @if stores.iter().any(|store| matches!(store.kind, Kind::Memory | Kind::Etcd)) {
            p .note { "Articles about refund systems compare Redis, databases and ZooKeeper by these criteria. The words on memory and etcd are ours." }
        }
    }
}
