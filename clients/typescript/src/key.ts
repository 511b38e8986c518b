/** The header that has the key. */
export const KEY = "idempotency-key";

/** Returns a new key: a UUID of version 7, the current time in milliseconds and 74 random bits. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, (BigInt(Date.now()) << 16n) | 0x7000n | (view.getBigUint64(0) & 0xfffn));
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Returns bytes as text, two hexadecimal digits for each. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
