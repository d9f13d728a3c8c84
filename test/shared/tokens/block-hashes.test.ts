import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { xxh3 } from '@node-rs/xxhash';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { XXH3_SOURCE } from '../../../shared/tokens/hashing/xxh3-code.ts';
import {
  borrowChain,
  chainHashes,
  createBlockHasher,
  hashBlocks,
  mediaHash,
  xxh3Hash,
} from '../../../shared/tokens/index.ts';

interface HashVector {
  readonly id: string;
  readonly note: string;
  readonly block_size: number;
  readonly tokens?: readonly number[];
  readonly token_range?: readonly [number, number];
  readonly lora?: string;
  readonly namespace?: string;
  readonly eagle?: boolean;
  readonly mm_hashes?: Readonly<Record<string, readonly string[]>>;
  readonly local: readonly string[];
  readonly sequence: readonly string[];
}

const VECTORS = readFileSync(new URL('../../fixtures/tokens/hash-vectors.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as HashVector);

function toDecimals(pairs: Uint32Array): string[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) =>
    ((BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!)).toString(),
  );
}

function tokensOf(vector: HashVector): Uint32Array {
  if (vector.tokens !== undefined) return Uint32Array.from(vector.tokens);
  const [first, count] = vector.token_range ?? [0, 0];
  return Uint32Array.from({ length: count }, (_, at) => first + at);
}

describe('block hashes', () => {
  it('are made by what was compiled from the source as it stands', () => {
    const source = readFileSync(new URL('../../../wasm/xxh3.ts', import.meta.url));
    expect(createHash('sha256').update(source).digest('hex'), 'npm run wasm').toBe(XXH3_SOURCE);
  });

  it.each([0, 1, 2, 300, 9000])('of %i blocks are the same chained for keeps and for a moment', (blocks) => {
    const local = Uint32Array.from({ length: 2 * blocks }, (_, at) => Math.imul(at + 1, 0x9e3779b1) >>> 0);
    expect([...borrowChain(local)]).toEqual([...chainHashes(local)]);
  });

  it.each(VECTORS)('equal the recorded ones: $id $note', (vector) => {
    const media = Object.entries(vector.mm_hashes ?? {});
    const hashes = hashBlocks(tokensOf(vector), {
      blockSizeTokens: vector.block_size,
      loraName: vector.lora,
      cacheSalt: vector.namespace,
      isEagle: vector.eagle,
      mediaHashes: new Map(media.map(([block, list]) => [Number(block), list.map(BigInt)])),
    });
    expect(toDecimals(hashes.local)).toEqual(vector.local);
    expect(toDecimals(hashes.sequence)).toEqual(vector.sequence);
  });

  it.each([
    [1, [7], '11011797887259449313'],
    [2, [7, 8], '17618415278248929228'],
    [32, 32, '5756925433886871916'],
    [33, 33, '2081791232692432502'],
    [60, 60, '13886301141173099695'],
    [61, 61, '1924516252287165151'],
    [1024, 1024, '7155924717231313731'],
  ] as const)('hash blocks of %i tokens, on either side of a change of method', (blockSizeTokens, tokens, expected) => {
    const list = typeof tokens === 'number' ? Array.from({ length: tokens }, (_, at) => at) : tokens;
    expect(toDecimals(hashBlocks(Uint32Array.from(list), { blockSizeTokens }).local)).toEqual([expected]);
  });

  it('chain alone, with and without a parent', () => {
    const local = Uint32Array.of(11, 0, 22, 0, 33, 0);
    const whole = chainHashes(local);
    expect(toDecimals(whole)).toEqual(['11', '750553365844651409', '3257565445809651757']);
    expect(chainHashes(local.subarray(2), [11, 0])).toEqual(whole.subarray(2));
    expect(chainHashes(new Uint32Array(0))).toHaveLength(0);
  });

  it('give nothing for a block size of 0 and refuse sizes beyond the limit', () => {
    expect(hashBlocks(Uint32Array.of(1, 2, 3), { blockSizeTokens: 0 }).local).toHaveLength(0);
    expect(() => hashBlocks(new Uint32Array(20_000), { blockSizeTokens: 16_385 })).toThrow(RangeError);
  });

  it('are the same made at once and step by step, across the slices of a long prompt', () => {
    const tokens = Uint32Array.from({ length: 100_003 }, (_, at) => (at * 2_654_435_761) >>> 0);
    const whole = hashBlocks(tokens, { blockSizeTokens: 3, loraName: 'adapter-a' });
    const hasher = createBlockHasher({ blockSizeTokens: 3, loraName: 'adapter-a' });
    const local = new Uint32Array(whole.local.length);
    const sequence = new Uint32Array(whole.local.length);
    const blocks = whole.local.length / 2;
    for (const [from, to] of [
      [0, 1],
      [1, 7],
      [7, 20_000],
      [20_000, blocks],
    ] as const) {
      hasher.name(tokens, from, to, local, sequence);
    }
    expect(local).toEqual(whole.local);
    expect(sequence).toEqual(whole.sequence);
  });
});

describe('xxh3Hash', () => {
  it('equals the reference for every length across all methods, with any seed', () => {
    const seeds = [0n, 1n, 1337n, 0xffff_ffff_ffff_ffffn, 8842669519798868182n];
    for (let length = 0; length <= 1200; length++) {
      const bytes = Uint8Array.from({ length }, (_, at) => (at * 37 + length) & 0xff);
      const seed = seeds[length % seeds.length]!;
      expect(xxh3Hash(bytes, seed), `length ${length}`).toBe(xxh3.xxh64(bytes, seed));
    }
  });

  it('equals the reference for random bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), (bytes, seed) => {
        expect(xxh3Hash(bytes, seed)).toBe(xxh3.xxh64(bytes, seed));
      }),
    );
  });

  it('gives the known constant', () => {
    expect(xxh3Hash(Buffer.from('test data'), 1337n)).toBe(13226331709069118873n);
  });
});

describe('mediaHash', () => {
  it('takes the head of a digest, else hashes the identifier', () => {
    expect(mediaHash('0123456789abcdef'.repeat(4))).toBe(81985529216486895n);
    expect(mediaHash('opaque-renderer-image-0')).toBe(14437604544409538977n);
    expect(mediaHash('')).toBeUndefined();
  });
});
