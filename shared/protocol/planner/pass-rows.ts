import type { PassRow } from './events.ts';

/** Numbers of a pass by name. */
type PassNumbers = Readonly<ReturnType<typeof fromPassRow>>;

/** Returns the row of a pass. */
export function toPassRow(pass: PassNumbers): PassRow {
  return [
    pass.wallTimeS,
    pass.prefillRequests,
    pass.prefillTokens,
    pass.prefillKvTokens,
    pass.decodeRequests,
    pass.decodeKvTokens,
    pass.queuedPrefillRequests,
    pass.queuedPrefillTokens,
    pass.queuedDecodeRequests,
    pass.queuedDecodeKvTokens,
  ];
}

/** Returns the pass of a row. What the row leaves out is 0. */
export function fromPassRow(row: readonly number[]) {
  const [wallTimeS = 0, np = 0, pt = 0, pkv = 0, nd = 0, dkv = 0, qnp = 0, qpt = 0, qnd = 0, qdkv = 0] = row;
  return {
    wallTimeS,
    prefillRequests: np,
    prefillTokens: pt,
    prefillKvTokens: pkv,
    decodeRequests: nd,
    decodeKvTokens: dkv,
    queuedPrefillRequests: qnp,
    queuedPrefillTokens: qpt,
    queuedDecodeRequests: qnd,
    queuedDecodeKvTokens: qdkv,
  };
}
