/** Id of an instance as Stator writes it: lower-case hex of a u64. */
const HEX_ID = /^[0-9a-f]{1,16}$/;

/** Returns a u64 as codecs write it: a number if it is exact, otherwise a bigint. */
export function wireU64(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** Returns the id of an instance as the integer that Dynamo's records carry; undefined for a text that is not an id. */
export function idToWire(hexId: unknown): number | bigint | undefined {
  return typeof hexId === 'string' && HEX_ID.test(hexId) ? wireU64(BigInt(`0x${hexId}`)) : undefined;
}
