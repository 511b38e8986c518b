//! Compiles the code of the documents that show a driver. The tests are in `pages.rs`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    mod first_page {}
    #[doc = include_str!("../../docs/drivers.md")]
    mod drivers {}
}
