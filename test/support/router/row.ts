/** One line of a folder in the format of test/fixtures/router. */
export interface RouterRow {
  readonly id: string;
  /** Returns every difference between the router and the record; none means passed. */
  play(): readonly string[];
}

/** Returns a fault if `actual` is not `wanted`. */
export function difference(what: string, wanted: unknown, actual: unknown): readonly string[] {
  const [expected, got] = [JSON.stringify(wanted), JSON.stringify(actual)];
  return expected === got ? [] : [`${what}: expected ${expected}, got ${got}`];
}

export type HashPair = readonly [low: number, high: number];

/** Splits a 64-bit hash in decimal into two u32 halves. */
export function pairOf(decimal: string | number | bigint): HashPair {
  const hash = BigInt(decimal);
  return [Number(hash & 0xffff_ffffn), Number(hash >> 32n)];
}

export function pairsOf(decimals: readonly (string | number | bigint)[]): Uint32Array {
  return Uint32Array.from(decimals.flatMap((decimal) => pairOf(decimal)));
}

export function decimalsOf(pairs: Uint32Array): readonly string[] {
  const count = pairs.length / 2;
  return Array.from({ length: count }, (_, at) =>
    ((BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!)).toString(),
  );
}
