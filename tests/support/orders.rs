//! Services in editions 2023 and 2024, for `connectrpc`.

use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};

use buffa::MessageField;
use connectrpc::{RequestContext, ServiceRequest, ServiceResult};

/// The packages `orders.v1` and `refunds.v1`.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod native {
    include!(concat!(env!("OUT_DIR"), "/orders/orders.rs"));
}

use native::{
    orders::v1::{Order, Orders, Placed, placed::Receipt},
    refunds::v1::{RefundRequest, RefundResponse, Refunds},
};

/// The descriptors, as protoc wrote them.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../data/editions/orders.binpb");

/// The handlers of both services. Numbers what they do from 1 on.
#[derive(Clone, Debug, Default)]
pub struct Till {
    done: Arc<AtomicI32>,
}

impl Till {
    /// The number of handlers that have succeeded.
    pub fn done(&self) -> i32 {
        self.done.load(Ordering::SeqCst)
    }

    fn next(&self) -> i32 {
        self.done.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[expect(refining_impl_trait, reason = "a handler names its response")]
impl Orders for Till {
    /// Answers with the quantity and the discount of the order.
    async fn place(&self, _: RequestContext, request: ServiceRequest<'_, Order>) -> ServiceResult<Placed> {
        let order = request.to_owned_message();
        let receipt =
            Receipt { text: Some("paid".to_owned()), secret: Some("only once".to_owned()), ..Receipt::default() };
        Ok(connectrpc::Response::new(Placed {
            number: Some(self.next()),
            quantity: order.quantity,
            discount: order.discount,
            receipt: MessageField::some(receipt),
            ..Placed::default()
        }))
    }
}

#[expect(refining_impl_trait, reason = "a handler names its response")]
impl Refunds for Till {
    /// Refunds all.
    async fn refund(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RefundRequest>,
    ) -> ServiceResult<RefundResponse> {
        self.next();
        let cents = Some(request.to_owned_message().cents);
        Ok(connectrpc::Response::new(RefundResponse { cents, ..RefundResponse::default() }))
    }
}
