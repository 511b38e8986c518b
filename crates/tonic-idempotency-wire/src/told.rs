//! Formats errors that a `main` returns, and suggests similar names for one that is unknown.

use std::{
    error::Error,
    fmt,
    iter::{once, successors},
};

/// The least similarity of a suggested name, from 0 to 1, and the most suggestions.
const LIKE: f64 = 0.8;
const MOST: usize = 3;

/// Returns the text of an error, and the texts that `text` has for its causes, each once: some errors have their causes in their own text.
pub fn texts<'a>(
    error: &'a dyn Error,
    text: impl Fn(&(dyn Error + 'static)) -> String + 'a,
) -> impl Iterator<Item = String> + 'a {
    let first = error.to_string();
    let mut said = first.clone();
    let causes =
        successors(error.source(), |cause: &&(dyn Error + 'static)| (**cause).source()).filter_map(move |cause| {
            let text = text(cause);
            let is_new = !said.contains(&text);
            said.push_str(&text);
            is_new.then_some(text)
        });
    once(first).chain(causes)
}

/// Writes an error and its causes, each on a line of its own: a `main` that returns an error prints its `Debug`, which would else be the
/// fields of a structure, without the remedy.
///
/// # Errors
///
/// Those of the formatter.
pub fn tell(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&texts(error, |cause| cause.to_string()).collect::<Vec<_>>().join("\n  because: "))
}

/// Implements `Debug` for an error by [`tell`](crate::tell).
#[doc(hidden)]
#[macro_export]
macro_rules! debug_tells {
    ($($error:ty),+) => {$(
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::tell(self, f)
            }
        }
    )+};
}

/// Returns the names that are most like this one, the best first.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut like: Vec<_> = names
        .into_iter()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(like, _)| *like >= LIKE)
        .collect();
    like.sort_by(|(one, name), (two, other)| two.total_cmp(one).then(name.cmp(other)));
    like.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

/// Says which procedure was meant, for the error of a path that is none.
pub fn meant(nearest: &[String]) -> String {
    match nearest {
        [] => "a path is such as /shop.v1.Orders/Create".to_owned(),
        nearest => format!("did you mean {}?", nearest.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(thiserror::Error)]
    #[error("the store cannot be asked")]
    struct Outer(#[source] Middle);

    #[derive(thiserror::Error)]
    #[error("no connection: {0}")]
    struct Middle(#[source] std::io::Error);

    debug_tells!(Outer, Middle);

    #[test]
    fn an_error_is_its_text_and_its_causes_once_each() {
        let refused = std::io::Error::other("connection refused");
        let told = format!("{:?}", Outer(Middle(refused)));
        assert_eq!(told, "the store cannot be asked\n  because: no connection: connection refused");
    }

    #[test]
    fn the_nearest_names_are_few_and_like_it() {
        let names = ["/shop.v1.Shop/CreateOrder", "/shop.v1.Shop/CancelOrder", "/bank.v1.Bank/Transfer"];
        assert_eq!(nearest("/shop.v1.Shop/CreateOrders", names)[0], names[0]);
        assert_eq!(nearest("/shop.v1.Shop/Createorder", names)[0], names[0]);
        assert!(nearest("/a.B/C", names).is_empty() && nearest("x", []).is_empty());
    }
}
