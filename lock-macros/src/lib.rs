//! The attribute `#[polylock::locked]`, which runs an async function under a lock.
//!
//! Services depend on `polylock` with the feature `macros`, which documents the attribute.

mod duration;
mod function;
mod options;
mod template;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Runs the body of an async function under an exclusive lock.
///
/// The attribute of `polylock`'s feature `macros`, where its options are documented.
#[proc_macro_attribute]
pub fn locked(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as options::Options);
    let function = parse_macro_input!(function as syn::ItemFn);
    function::under_lock(options, function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
