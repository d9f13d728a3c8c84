import type { TokenLogprob } from './engine-output.ts';

// What an answer takes while it is put together, about: measured on heaps of answers, rounded up.

/** A piece of text beside its characters. */
const PIECE_BYTES = 48;
const CHARACTER_BYTES = 2;
/** A piece of one token. */
const TOKEN_BYTES = PIECE_BYTES + 8 * CHARACTER_BYTES;
/** A named log probability beside the bytes of its token. */
const LOGPROB_BYTES = 192;
const LOGPROB_BYTE_BYTES = 16;
/** One whose token has four bytes. */
const USUAL_LOGPROB_BYTES = LOGPROB_BYTES + 4 * LOGPROB_BYTE_BYTES;
/** A value of a JSON object beside its characters. */
const VALUE_BYTES = 24;

/** Bytes that a piece of an answer takes until the answer is whole. */
export function textMemory(text: string): number {
  return PIECE_BYTES + CHARACTER_BYTES * text.length;
}

/** As `textMemory`, of log probabilities. */
export function logprobsMemory(tokens: readonly TokenLogprob[]): number {
  let bytes = 0;
  for (const token of tokens) {
    bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (token.bytes?.length ?? 0);
    for (const other of token.top) bytes += LOGPROB_BYTES + LOGPROB_BYTE_BYTES * (other.bytes?.length ?? 0);
  }
  return bytes;
}

/** As `textMemory`, of a value that came as JSON. Its depth was bounded when it was read. */
export function valueMemory(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + CHARACTER_BYTES * value.length;
  if (typeof value !== 'object' || value === null) return VALUE_BYTES;
  if (ArrayBuffer.isView(value)) return VALUE_BYTES + value.byteLength; // not a value for each of its bytes
  let bytes = VALUE_BYTES;
  if (Array.isArray(value)) for (const element of value) bytes += valueMemory(element);
  else for (const key in value) bytes += VALUE_BYTES + valueMemory((value as Readonly<Record<string, unknown>>)[key]);
  return bytes;
}

/**
 * Tokens of each choice with which a whole answer stays within `bytesMax`.
 * @param alternatives log probabilities beside each token's own; undefined = none at all
 */
export function tokensThatFit(bytesMax: number, choices: number, alternatives: number | undefined): number {
  const logprobs = alternatives === undefined ? 0 : USUAL_LOGPROB_BYTES * (1 + alternatives);
  return Math.max(1, Math.floor(bytesMax / (choices * (TOKEN_BYTES + logprobs))));
}
