import { hashBlocks } from '../../../shared/tokens/index.ts';
import { decimalsOf, difference } from './row.ts';

/** A line of hash-vectors.jsonl. */
export interface HashVector {
  readonly id: string;
  readonly block_size: number;
  readonly tokens?: readonly number[];
  readonly token_range?: readonly [first: number, count: number];
  readonly lora?: string;
  readonly namespace?: string;
  readonly eagle?: boolean;
  readonly mm_hashes?: Readonly<Record<string, readonly (string | number)[]>>;
  readonly local: readonly string[];
  readonly sequence: readonly string[];
}

/** Hashes the vector's tokens. Returns the differences from the record. */
export function playHashVector(vector: HashVector): readonly string[] {
  const media = Object.entries(vector.mm_hashes ?? {});
  const hashes = hashBlocks(tokensOf(vector), {
    blockSizeTokens: vector.block_size,
    loraName: vector.lora,
    cacheSalt: vector.namespace,
    isEagle: vector.eagle,
    mediaHashes: new Map(media.map(([block, list]) => [Number(block), list.map(BigInt)])),
  });
  return [
    ...difference('local', vector.local.map(String), decimalsOf(hashes.local)),
    ...difference('sequence', vector.sequence.map(String), decimalsOf(hashes.sequence)),
  ];
}

function tokensOf({ tokens, token_range: [first, count] = [0, 0] }: HashVector): Uint32Array {
  return tokens === undefined ? Uint32Array.from({ length: count }, (_, at) => first + at) : Uint32Array.from(tokens);
}
