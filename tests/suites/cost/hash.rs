//! The cost of the request hash.

use prost_reflect::DescriptorPool;

use crate::prelude::*;

#[test]
fn of_a_canonical_message_allocates_nothing() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let canonical = Canonical::new(&pool.get_message_by_name("shop.v1.CreateOrderRequest").expect("the message"));
    // One label: prost writes several in any order.
    let labels = [("a".to_owned(), "1".to_owned())].into();
    let message = CreateOrderRequest { name: "a".repeat(4096), labels, padding: vec![7; 1000], ..Default::default() }
        .encode_to_vec();
    assert_eq!(canonical.encode(&message).expect("a message"), message, "it is canonical");

    let mut hash = None;
    let info = allocation_counter::measure(|| hash = Some(canonical.hashes(&message)));
    assert!(hash.expect("it ran").is_ok());
    assert_eq!(info.count_total, 0);
}
