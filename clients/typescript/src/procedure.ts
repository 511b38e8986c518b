import type { DescMethod } from "@bufbuild/protobuf";

/** Returns the full name of a procedure, such as `/orders.v1.OrderService/CreateOrder`. */
export function procedureOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Whether a procedure has the option `(idempotency.v1.procedure)`. Options, generated or not, are among the unknown fields. */
export function hasOption(method: DescMethod): boolean {
  return method.proto.options?.$unknown?.some(({ no }) => no === 51915) ?? false;
}
