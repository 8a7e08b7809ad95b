//! The options of the attribute: `name = value`, separated by commas.

use std::time::Duration;

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitStr, Result, Token};

use crate::duration;
use crate::template::Template;

/// The options of one attribute.
pub(crate) struct Options {
    pub(crate) key: Template,
    /// The client; the argument `locks` without this option.
    pub(crate) locks: Option<Expr>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
    pub(crate) on_busy: OnBusy,
}

/// The outcome of a function if another client holds its lock until the wait ends.
#[derive(Clone, Copy, Default)]
pub(crate) enum OnBusy {
    /// Returns an error.
    #[default]
    Error,
    /// Returns `Ok(None)` or `Ok(())`.
    Skip,
}

/// One option as it is written.
struct Written {
    name: Ident,
    value: Expr,
}

const NAMES: &str = "key, locks, ttl, wait, at_least, at_most, on_busy";

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut key = None;
        let (mut locks, mut ttl, mut wait) = (None, None, None);
        let (mut at_least, mut at_most) = (None, None);
        let mut on_busy = OnBusy::default();
        let mut seen: Vec<String> = Vec::new();
        for Written { name, value } in Punctuated::<Written, Token![,]>::parse_terminated(input)? {
            let written = name.to_string();
            if seen.contains(&written) {
                return Err(Error::new(name.span(), format!("{written} is set twice")));
            }
            match &*written {
                "key" => key = Some(Template::parse(text(&name, &value)?)?),
                "locks" => locks = Some(value),
                "ttl" => ttl = Some(duration::parse(text(&name, &value)?)?),
                "wait" => wait = Some(duration::parse(text(&name, &value)?)?),
                "at_least" => at_least = Some(duration::parse(text(&name, &value)?)?),
                "at_most" => at_most = Some(duration::parse(text(&name, &value)?)?),
                "on_busy" => on_busy = OnBusy::parse(text(&name, &value)?)?,
                _ => {
                    let message = format!("unknown option {written}: known are {NAMES}");
                    return Err(Error::new(name.span(), message));
                }
            }
            seen.push(written);
        }
        let key = key.ok_or_else(|| {
            let message =
                "the key is missing: write key = \"order:{order.id}\", with arguments in braces";
            Error::new(Span::call_site(), message)
        })?;
        Ok(Self {
            key,
            locks,
            ttl,
            wait,
            at_least,
            at_most,
            on_busy,
        })
    }
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(Self { name, value })
    }
}

impl OnBusy {
    fn parse(text: &LitStr) -> Result<Self> {
        match &*text.value() {
            "error" => Ok(Self::Error),
            "skip" => Ok(Self::Skip),
            other => Err(Error::new(
                text.span(),
                format!("unknown on_busy {other:?}: known are \"error\" and \"skip\""),
            )),
        }
    }
}

/// Returns the string literal `value` of an option.
fn text<'a>(name: &Ident, value: &'a Expr) -> Result<&'a LitStr> {
    if let Expr::Lit(literal) = value
        && let syn::Lit::Str(text) = &literal.lit
    {
        return Ok(text);
    }
    let message = format!("{name} is a string: write it in quotation marks");
    Err(Error::new_spanned(value, message))
}
