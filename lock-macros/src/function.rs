//! The function that takes the lock and runs the body under it.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FnArg, Ident, ItemFn, Pat, Result, ReturnType, Type};

use crate::options::{OnBusy, Options};

/// The argument that the body gets from the lock instead of the caller.
const HELD: &str = "held";

/// Returns `function` with a body that runs the old body under the lock.
pub(crate) fn under_lock(options: Options, function: ItemFn) -> Result<TokenStream> {
    let ItemFn {
        attrs,
        vis,
        mut sig,
        block,
    } = function;
    if sig.asyncness.is_none() {
        let message =
            "a locked function is async: its lock is waited for, and a loss drops its future";
        return Err(Error::new_spanned(sig.fn_token, message));
    }
    if matches!(sig.output, ReturnType::Default) {
        let message = "a locked function returns a Result, since its lock may fail or be lost";
        return Err(Error::new_spanned(&sig.ident, message));
    }
    let held = take_held(&mut sig.inputs);
    let held = held.map_or_else(|| quote!(_: ::polylock::HoldWatch), |held| quote!(#held));
    let arguments = arguments(&sig.inputs);
    let key = options.key.expression(&arguments)?;
    let locks = match options.locks {
        Some(locks) => quote!(#locks),
        None if arguments.iter().any(|argument| argument == "locks") => quote!(locks),
        None => {
            let message = "no argument is called locks: add one, such as locks: &dyn DistributedLock, or write locks = self.locks";
            return Err(Error::new_spanned(&sig.ident, message));
        }
    };
    let settings = [
        options.ttl.map(|ttl| setting("with_ttl", ttl)),
        options.wait.map(|wait| setting("waiting_at_most", wait)),
        options
            .at_least
            .map(|minimum| setting("holding_at_least", minimum)),
        options
            .at_most
            .map(|limit| setting("holding_at_most", limit)),
    ];
    let settings = settings.into_iter().flatten();
    let busy = match options.on_busy {
        OnBusy::Error => quote! {
            ::core::result::Result::Err(::core::convert::From::from(::polylock::Busy::new(__key)))
        },
        OnBusy::Skip => quote!(::polylock::Skipped::skipped()),
    };
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            use ::polylock::DistributedLockExt as _;

            let __key = #key;
            let __request = match ::polylock::LockRequest::exclusive(&__key) {
                ::core::result::Result::Ok(request) => request #(#settings)*,
                ::core::result::Result::Err(error) => {
                    return ::core::result::Result::Err(::core::convert::From::from(error));
                }
            };
            match (#locks).with_lock(__request, move |#held| async move #block).await {
                ::core::result::Result::Ok(::core::option::Option::Some(outcome)) => outcome,
                ::core::result::Result::Ok(::core::option::Option::None) => #busy,
                ::core::result::Result::Err(error) => {
                    ::core::result::Result::Err(::core::convert::From::from(error))
                }
            }
        }
    })
}

/// Removes the argument `held: HoldWatch`, and returns it.
fn take_held(inputs: &mut syn::punctuated::Punctuated<FnArg, syn::Token![,]>) -> Option<FnArg> {
    let is_held = |input: &FnArg| {
        let FnArg::Typed(input) = input else {
            return false;
        };
        let is_named = matches!(&*input.pat, Pat::Ident(name) if name.ident == HELD);
        let last = match &*input.ty {
            Type::Path(path) => path.path.segments.last(),
            _ => None,
        };
        is_named && last.is_some_and(|last| last.ident == "HoldWatch")
    };
    let held = inputs.iter().find(|input| is_held(input)).cloned()?;
    *inputs = inputs
        .iter()
        .filter(|input| !is_held(input))
        .cloned()
        .collect();
    Some(held)
}

/// Returns the names that the arguments bind.
fn arguments(inputs: &syn::punctuated::Punctuated<FnArg, syn::Token![,]>) -> Vec<String> {
    let mut names = Vec::new();
    for input in inputs {
        match input {
            FnArg::Receiver(_) => names.push("self".to_owned()),
            FnArg::Typed(input) => bound(&input.pat, &mut names),
        }
    }
    names
}

/// Adds the names that `pattern` binds to `names`.
fn bound(pattern: &Pat, names: &mut Vec<String>) {
    match pattern {
        Pat::Ident(name) => names.push(name.ident.to_string()),
        Pat::Paren(inner) => bound(&inner.pat, names),
        Pat::Reference(inner) => bound(&inner.pat, names),
        Pat::Struct(fields) => fields
            .fields
            .iter()
            .for_each(|field| bound(&field.pat, names)),
        Pat::Tuple(parts) => parts.elems.iter().for_each(|part| bound(part, names)),
        Pat::TupleStruct(parts) => parts.elems.iter().for_each(|part| bound(part, names)),
        _ => {}
    }
}

/// Returns the call that sets a duration of the request.
fn setting(method: &str, duration: Duration) -> TokenStream {
    let method = Ident::new(method, proc_macro2::Span::call_site());
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    quote!(.#method(::core::time::Duration::from_millis(#milliseconds)))
}
