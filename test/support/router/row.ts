/** One line of a folder in the format of test/fixtures/router. */
export interface RouterRow {
  readonly id: string;
  /** Everything in which the router differs from the record; none = passed. */
  play(): readonly string[];
}

/** What is wrong when `actual` is not `wanted`. */
export function difference(what: string, wanted: unknown, actual: unknown): readonly string[] {
  const [expected, got] = [JSON.stringify(wanted), JSON.stringify(actual)];
  return expected === got ? [] : [`${what}: expected ${expected}, got ${got}`];
}

export type HashPair = readonly [low: number, high: number];

/** A 64-bit hash, written in decimal, as two u32 halves. */
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
