import type { LoadAmounts } from './load-amounts.ts';

/** Header of a request for which amounts were reserved in the shared counters: its worker counts them as arrived. */
export const RESERVED_HEADER = 'x-stator-reserved';

/** What was reserved for one request, and at which rank. */
export interface ReservedAmounts {
  readonly dpRank: number;
  readonly amounts: LoadAmounts;
}

const AMOUNT_MAX = 1e9;

/** `rank,requests,blocks,tokens` in decimal. */
export function encodeReserved({ dpRank, amounts }: ReservedAmounts): string {
  return `${dpRank},${amounts.requests},${amounts.decodeBlocks},${amounts.prefillTokens}`;
}

/** Undefined when the text is not what `encodeReserved` makes: then nothing was reserved that anybody could count. */
export function decodeReserved(text: string): ReservedAmounts | undefined {
  const numbers = text.split(',').map((part) => (/^\d{1,10}$/.test(part) ? Number(part) : Number.NaN));
  const [dpRank, requests, decodeBlocks, prefillTokens] = numbers;
  if (dpRank === undefined || requests === undefined || decodeBlocks === undefined || prefillTokens === undefined) {
    return undefined;
  }
  if (numbers.length !== 4 || !numbers.every((number) => number <= AMOUNT_MAX)) return undefined;
  return { dpRank, amounts: { requests, decodeBlocks, prefillTokens } };
}
