import type { DescMethod } from "@bufbuild/protobuf";

/** The number of the option `(idempotency.v1.procedure)`. */
const OPTION = 51915;

/** Returns the full name of a procedure, such as `/orders.v1.OrderService/CreateOrder`. */
export function procedureOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Whether the procedure has the option. Extensions, generated or not, are among the unknown fields. */
export function hasOption(method: DescMethod): boolean {
  return method.proto.options?.$unknown?.some(({ no }) => no === OPTION) ?? false;
}
