//! Properties of every message, checked on random ones. A failure prints the seeds.

use proptest::prelude::*;
use protobuf_canonical::Canonical;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{random, schema};

/// The messages that refer, directly or not, to all others.
const ROOTS: [&str; 2] = ["vectors.v1.Everything", "vectors.v1.LegacyEverything"];

fn hex(result: &[u8]) -> String {
    hex::encode(result)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_encoding_of_a_message_gives_the_same_bytes(root in 0..ROOTS.len(), seed: u64, style: u64) {
        let descriptor = schema::message(ROOTS[root]);
        let canonical = Canonical::new(&descriptor);
        let message = random::message(&descriptor, 4, &mut StdRng::seed_from_u64(seed));
        let odd = message.encode_oddly(&mut StdRng::seed_from_u64(style));

        let of_plain = canonical.encode(&message.encode()).expect("a valid message").into_owned();
        let of_odd = canonical.encode(&odd).expect("a valid message");

        prop_assert_eq!(hex(&of_plain), hex(&of_odd));
        let again = canonical.encode(&of_odd).expect("a valid message");
        prop_assert!(matches!(again, std::borrow::Cow::Borrowed(_)), "its own encoding is canonical to it");
    }

    #[test]
    fn another_value_gives_other_bytes(root in 0..ROOTS.len(), seed: u64, change: u64) {
        let descriptor = schema::message(ROOTS[root]);
        let canonical = Canonical::new(&descriptor);
        let message = random::message(&descriptor, 4, &mut StdRng::seed_from_u64(seed));
        let mut other = message.clone();
        prop_assume!(random::mutate(&mut other, &mut StdRng::seed_from_u64(change)).is_some());

        let [message, other] = [message, other].map(|message| canonical.hash(&message.encode()).expect("a valid message"));

        prop_assert_ne!(message.as_bytes(), other.as_bytes());
    }
}
