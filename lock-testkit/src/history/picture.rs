//! A picture of the claims of a key around a violation.

use std::fmt::Write;

use super::claims::{Claim, End, Fault, History};
use super::verdict::Violation;

const WIDTH: f64 = 1200.0;
const NAMES: f64 = 90.0;
const ROW: f64 = 22.0;
const TOP: f64 = 96.0;

/// Minimum time shown before and after the violation: 300 ms.
const AROUND: u64 = 300_000_000;

/// Maximum number of claims drawn; the claims next to the violation are kept.
const CLAIMS_MAX: usize = 400;

impl History {
    /// Draws the claims of the violation's key around the violation, as SVG.
    ///
    /// Each process has a row. Thin lines are waiters, dark bars are certain holds, and light bars
    /// are holds until their release. Grey areas are faults.
    pub fn picture(&self, violation: &Violation) -> String {
        let (begin, end) = violation.span;
        let around = AROUND.max(end - begin);
        let frame = Frame {
            from: begin.saturating_sub(around),
            to: end + around,
        };
        let claims = self.claims_in(&violation.key, &frame, (begin, end));
        let mut workers: Vec<usize> = claims.iter().map(|claim| claim.worker).collect();
        workers.sort_by_key(|worker| &self.worker(*worker).name);
        workers.dedup();
        // Claims of one process may overlap, and then get rows of their own.
        let rows = rows(&claims, &workers);
        let height = TOP + ROW * (rows.len() as f64 + 1.0);
        let mut svg = head(height, &violation.to_string());
        for fault in &self.faults {
            frame.draw_fault(&mut svg, fault, height);
        }
        frame.draw_scale(&mut svg, (begin, end), height);
        for (number, (worker, claims)) in rows.iter().enumerate() {
            let y = TOP + ROW * number as f64;
            let name = escaped(&self.worker(*worker).name);
            let _memory = writeln!(
                svg,
                r#"<text x="6" y="{:.1}">worker {name}</text>"#,
                y + 12.0
            );
            for claim in claims {
                frame.draw_claim(&mut svg, claim, y, self.end);
            }
        }
        svg + "</svg>\n"
    }

    fn claims_in(&self, key: &str, frame: &Frame, (begin, end): (u64, u64)) -> Vec<&Claim> {
        let claims = self.key(key).map(|key| &key.claims[..]).unwrap_or_default();
        let is_shown = |claim: &&Claim| {
            let ended = claim.end.map_or(self.end, |(at, _)| at);
            claim.invoked <= frame.to && ended >= frame.from
        };
        let mut shown: Vec<&Claim> = claims.iter().filter(is_shown).collect();
        let distance = |claim: &&Claim| {
            let at = claim.grant.map_or(claim.invoked, |grant| grant.at);
            at.abs_diff(begin).min(at.abs_diff(end))
        };
        shown.sort_by_key(distance);
        shown.truncate(CLAIMS_MAX);
        shown.sort_by_key(|claim| claim.invoked);
        shown
    }
}

/// Assigns claims to rows: a worker has as many rows as it has claims at the same time.
fn rows<'a>(claims: &[&'a Claim], workers: &[usize]) -> Vec<(usize, Vec<&'a Claim>)> {
    let mut rows: Vec<(usize, Vec<&Claim>)> = Vec::new();
    for worker in workers {
        let first = rows.len();
        for claim in claims.iter().filter(|claim| claim.worker == *worker) {
            let ended = |other: &&Claim| other.end.is_some_and(|(at, _)| at <= claim.invoked);
            let free = rows[first..]
                .iter_mut()
                .find(|(_, row)| row.last().is_none_or(ended));
            match free {
                Some((_, row)) => row.push(claim),
                None => rows.push((*worker, vec![claim])),
            }
        }
    }
    rows
}

fn head(height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="6" y="18" font-size="13">{title}</text>
<text x="6" y="36" fill="#555">Line: asks. Dark: certainly holds. Light: not given back yet. Red: the violation. Grey: faults.</text>
"##
    )
}

/// The span of time that is shown.
struct Frame {
    from: u64,
    to: u64,
}

impl Frame {
    fn x(&self, at: u64) -> f64 {
        let shown = at.clamp(self.from, self.to) - self.from;
        NAMES + (WIDTH - NAMES - 10.0) * shown as f64 / (self.to - self.from).max(1) as f64
    }

    fn draw_fault(&self, svg: &mut String, fault: &Fault, height: f64) {
        if fault.end < self.from || fault.begin > self.to {
            return;
        }
        let (left, right) = (self.x(fault.begin), self.x(fault.end));
        let _memory = writeln!(
            svg,
            r##"<rect x="{left:.1}" y="60" width="{:.1}" height="{:.1}" fill="#bbb" fill-opacity="0.35"/><text x="{left:.1}" y="74" fill="#555">{}</text>"##,
            (right - left).max(1.0),
            height - 60.0,
            escaped(&fault.kind),
        );
    }

    fn draw_scale(&self, svg: &mut String, (begin, end): (u64, u64), height: f64) {
        let (left, right) = (self.x(begin), self.x(end));
        let _memory = writeln!(
            svg,
            r##"<rect x="{left:.1}" y="60" width="{:.1}" height="{:.1}" fill="#d33" fill-opacity="0.25"/>"##,
            (right - left).max(1.0),
            height - 60.0,
        );
        for tenth in 0..=10 {
            let at = self.from + (self.to - self.from) / 10 * tenth;
            let milliseconds = (at as f64 - begin as f64) / 1e6;
            let x = self.x(at);
            let _memory = writeln!(
                svg,
                r##"<line x1="{x:.1}" y1="84" x2="{x:.1}" y2="{height:.1}" stroke="#eee"/><text x="{x:.1}" y="92" fill="#555" text-anchor="middle">{milliseconds:+.0} ms</text>"##
            );
        }
    }

    fn draw_claim(&self, svg: &mut String, claim: &Claim, y: f64, last: u64) {
        let ended = claim.end.map_or(last, |(at, _)| at);
        let asked = claim.answered().unwrap_or(ended);
        let middle = y + ROW / 2.0 - 3.0;
        let (left, right) = (self.x(claim.invoked), self.x(asked));
        let _memory = writeln!(
            svg,
            r##"<line x1="{left:.1}" y1="{middle:.1}" x2="{right:.1}" y2="{middle:.1}" stroke="#888"/>"##
        );
        let Some(grant) = claim.grant else { return };
        let outcome = match claim.end {
            Some((_, End::Lost)) => "lost",
            Some((_, End::Died)) => "killed",
            Some((_, End::Released | End::WithoutGrant)) => "given back",
            None => "never given back",
        };
        for (until, colour) in [(ended, "#9cc5ee"), (grant.held_until, "#2166ac")] {
            let (left, right) = (self.x(grant.at), self.x(until));
            let _memory = writeln!(
                svg,
                r#"<rect x="{left:.1}" y="{:.1}" width="{:.1}" height="10" fill="{colour}"><title>{:?}, token {}, {outcome}</title></rect>"#,
                middle - 5.0,
                (right - left).max(1.0),
                claim.mode,
                grant.token,
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
