//! Allocations per call. The bounds are measured values. If a change is worth more allocations, raise a bound to the
//! count in the failed assertion.

use crate::harness::{CANCEL, GET, request, with_key_field, without_replay_cache, wrapped};
use crate::prelude::*;

/// The allocations of a call: the fewest of several calls, because maps grow now and then and the first call makes
/// shared state.
fn allocations(service: &mut impl Server, request: impl Fn() -> Request<Body>, check: impl Fn(&Response<()>)) -> u64 {
    let runtime = runtime();
    let counts = (0..20).map(|_| {
        let request = request();
        let mut response = None;
        let info = allocation_counter::measure(|| response = Some(runtime.block_on(call(service, request))));
        check(&response.expect("a response"));
        info.count_total
    });
    counts.min().expect("some calls")
}

/// Checks the layer's headers of a response.
fn says(status: Option<&str>, replayed: bool) -> impl Fn(&Response<()>) {
    move |response| {
        let header = |name| response.headers().get(name).map(|value| value.to_str().expect("text"));
        assert_eq!((header("idempotency-status"), header("idempotent-replayed")), (status, replayed.then_some("true")));
    }
}

#[test]
fn are_none_for_a_call_that_is_passed_through() {
    let handler = Counting::default();
    for (path, key) in [(CREATE, None), (CANCEL, None), (GET, None), (GET, Some(Uuid::new_v4()))] {
        let request = || request(path, "a", key);
        let bare = allocations(&mut bare(&handler), request, says(None, false));
        assert_eq!(allocations(&mut wrapped(&handler), request, says(None, false)), bare, "{path} {key:?}");
    }
}

#[test]
fn of_a_first_call_do_not_exceed_the_bound() {
    let handler = Counting::default();
    for (path, status, bound) in [(CANCEL, "completed", 20), (CREATE, "processing", 33)] {
        let bare = allocations(&mut bare(&handler), || request(path, "a", None), says(None, false));
        let first = || request(path, "a", Some(Uuid::new_v4()));
        let wrapped = allocations(&mut wrapped(&handler), first, says(Some(status), false));
        let layer = wrapped - bare;
        assert!(layer <= bound, "{path}: {layer} allocations beyond the handler's {bare}, and the bound is {bound}");
    }
}

/// The key is found where it lies.
#[test]
fn of_a_first_call_are_no_more_if_the_key_is_in_the_message() {
    let handler = Counting::default();
    let of = |key_field: bool| {
        let request = || {
            let key = Uuid::new_v4();
            request(CANCEL, &key.to_string(), (!key_field).then_some(key))
        };
        allocations(&mut with_key_field(&handler, key_field), request, says(Some("completed"), false))
    };
    let (in_header, in_message) = (of(false), of(true));
    assert!(in_message <= in_header, "{in_message} allocations, and {in_header} with the header");
}

#[test]
fn of_a_replay_do_not_exceed_the_bound() {
    let handler = Counting::default();
    for (path, status, bound) in [(CANCEL, "completed", 19), (CREATE, "processing", 25)] {
        let replays = replay_allocations(&mut without_replay_cache(&handler), path, status);
        assert!(replays <= bound, "{path}: {replays} allocations, and the bound is {bound}");
    }
}

#[test]
fn of_a_replay_from_memory_do_not_exceed_a_lower_bound() {
    let bound = 16;
    let replays = replay_allocations(&mut wrapped(&Counting::default()), CANCEL, "completed");
    assert!(replays <= bound, "{replays} allocations, and the bound is {bound}");
}

fn replay_allocations(service: &mut impl Server, path: &'static str, status: &'static str) -> u64 {
    let key = Uuid::new_v4();
    runtime().block_on(call(service, request(path, "a", Some(key))));
    allocations(service, || request(path, "a", Some(key)), says(Some(status), true))
}
