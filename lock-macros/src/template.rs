//! The template of a key: text, with arguments of the function in braces.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Expr, LitStr, Result};

/// The maximum length of a key in bytes.
const KEY_MAX: usize = 255;

/// A key with arguments in braces, such as `order:{order.id}`.
pub(crate) struct Template {
    /// The template of `format!`, with empty braces for each value.
    format: String,
    values: Vec<Value>,
    span: Span,
}

/// A value in braces, and the argument that it begins with.
struct Value {
    root: String,
    value: Expr,
}

impl Template {
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        let (value, span) = (text.value(), text.span());
        let mut template = Self {
            format: String::new(),
            values: Vec::new(),
            span,
        };
        let mut rest = &*value;
        while let Some(brace) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(brace);
            template.format.push_str(before);
            if from.starts_with("{{") || from.starts_with("}}") {
                template.format.push_str(&from[..2]);
                rest = &from[2..];
                continue;
            }
            let inside = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let Some((inside, after)) = inside else {
                let message = "a brace has no partner: write {{ or }} for a brace in the key";
                return Err(Error::new(span, message));
            };
            let (inside, format) = inside
                .split_once(':')
                .map_or((inside, String::new()), |it| (it.0, format!(":{}", it.1)));
            template.format.push_str(&format!("{{{format}}}"));
            template.values.push(Value::parse(inside, span)?);
            rest = after;
        }
        template.format.push_str(rest);
        if template.values.is_empty() && !(1..=KEY_MAX).contains(&value.len()) {
            let message = format!(
                "a key has 1 to {KEY_MAX} bytes, and this one has {}",
                value.len()
            );
            return Err(Error::new(span, message));
        }
        Ok(template)
    }

    /// Returns the expression of the key. Each value has to begin with one of `arguments`.
    pub(crate) fn expression(&self, arguments: &[String]) -> Result<TokenStream> {
        if let Some(unknown) = self
            .values
            .iter()
            .find(|value| !arguments.contains(&value.root))
        {
            let root = &unknown.root;
            let known = match arguments {
                [] => "there are none".to_owned(),
                arguments => format!("known are {}", arguments.join(", ")),
            };
            let message =
                format!("the key names {root}, which is no argument of the function: {known}");
            return Err(Error::new(self.span, message));
        }
        let format = LitStr::new(&self.format, self.span);
        let values = self.values.iter().map(|value| &value.value);
        Ok(quote!(::std::format!(#format #(, #values)*)))
    }
}

impl Value {
    fn parse(inside: &str, span: Span) -> Result<Self> {
        let malformed = || {
            let message = format!(
                "{{{inside}}} is no argument: write its name, and perhaps its fields, as in {{order.id}}"
            );
            Error::new(span, message)
        };
        let tokens: TokenStream = inside.parse().map_err(|_| malformed())?;
        let value: Expr = syn::parse2(at(tokens, span)).map_err(|_| malformed())?;
        let root = root(&value).ok_or_else(malformed)?;
        Ok(Self { root, value })
    }
}

/// Returns the argument that `value`, an argument or one of its fields, begins with.
fn root(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(field) => root(&field.base),
        _ => None,
    }
}

/// Moves `tokens` to `span`, so that the compiler's errors point there.
fn at(tokens: TokenStream, span: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        if let TokenTree::Group(group) = &token {
            token = TokenTree::Group(Group::new(group.delimiter(), at(group.stream(), span)));
        }
        token.set_span(span);
        token
    });
    moved.collect()
}
