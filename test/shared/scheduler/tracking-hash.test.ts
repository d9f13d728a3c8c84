import { describe, expect, it } from 'vitest';
import type { RouteRequest, WorkerPool } from '../../../shared/router/index.ts';
import { createKeyedTracking } from '../../../shared/scheduler/index.ts';
import { blake3Keyed, seedsOf } from '../../../shared/scheduler/tracking-hash.ts';
import { hashBlocks, seededHashes } from '../../../shared/tokens/index.ts';

const NO_HASHES = { local: new Uint32Array(0), sequence: new Uint32Array(0) };

const VECTORS: readonly (readonly [length: number, digest: string])[] = [
  [0, '92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26'],
  [1, '6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b'],
  [64, 'ba8ced36f327700d213f120b1a207a3b8c04330528586f414d09f2f7d9ccb7e6'],
  [65, 'c0a4edefa2d2accb9277c371ac12fcdbb52988a86edc54f0716e1591b4326e72'],
  [1023, 'c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e'],
  [1024, '75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4'],
  [1025, '357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69'],
  [2048, '879cf1fa2ea0e79126cb1063617a05b6ad9d0b696d0d757cf053439f60a99dd1'],
  [2049, '9f29700902f7c86e514ddc4df1e3049f258b2472b6dd5267f61bf13983b78dd5'],
  [3072, '044a0e7b172a312dc02a4c9a818c036ffa2776368d7f528268d2e6b5df191770'],
  [5120, '2c493e48e9b9bf31e0553a22b23503c0a3388f035cece68eb438d22fa1943e20'],
  [8193, '954a2a75420c8d6547e3ba5b98d963e6fa6491addc8c023189cc519821b4a1f5'],
];

function key(byte: number): Uint8Array {
  return new Uint8Array(32).fill(byte);
}

function tokens(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, at) => at);
}

function numbersOf(pairs: Uint32Array): readonly bigint[] {
  return Array.from(
    { length: pairs.length >> 1 },
    (_, at) => (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!),
  );
}

describe('keyed BLAKE3', () => {
  const text = new TextEncoder().encode('whats the Elvish word for friend');

  // The published test vectors: input byte n is n mod 251; lengths on both sides of a block, a chunk and a tree of chunks.
  it.each(VECTORS)('of %d bytes', (length, digest) => {
    const input = Uint8Array.from({ length }, (_, at) => at % 251);
    expect(Buffer.from(blake3Keyed(text, input)).toString('hex')).toBe(digest);
  });

  it('wants a key of 32 bytes', () => {
    expect(() => blake3Keyed(key(1).subarray(1), text)).toThrow('a key of BLAKE3 has 32 bytes, not 31');
  });
});

describe('keyed-xxh3-v1', () => {
  it('names blocks as Dynamo does', () => {
    const scope = {
      model: 'model-a',
      routingGroup: 'tenant-a',
      blockSizeTokens: 4,
      cacheSalt: 'cache-a',
      loraName: 'adapter-a',
      isEagle: false,
    };
    const seeds = seedsOf(key(0x5a), '2026-01', scope);
    expect(numbersOf(seededHashes(tokens(12), { blockSizeTokens: 4 }, seeds))).toEqual([
      4_363_769_719_052_127_296n,
      14_998_523_962_162_619_427n,
      13_920_914_207_884_994_756n,
    ]);
  });

  const pool: WorkerPool = { key: 'k', model: 'model', role: 'aggregated', blockSizeTokens: 4 };
  function ask(more: Partial<RouteRequest> = {}): RouteRequest {
    return { id: 'r', pool, routing: {}, override: undefined, tokenIds: tokens(10), excluded: new Set(), ...more };
  }
  const tracking = createKeyedTracking({ key: key(0x41), keyId: '2026-01' });

  it('names blocks of speculative engines as Dynamo does', () => {
    expect(numbersOf(tracking.activeHashes(ask(), { ...pool, isEagle: true }, NO_HASHES))).toEqual([
      18_351_479_723_295_049_348n,
      8_577_555_336_206_814_019n,
    ]);
  });

  it('gives other names to another key, epoch, model, block size, adapter, salt', () => {
    const names = [
      tracking.activeHashes(ask(), pool, NO_HASHES),
      createKeyedTracking({ key: key(0x42), keyId: '2026-01' }).activeHashes(ask(), pool, NO_HASHES),
      createKeyedTracking({ key: key(0x41), keyId: '2026-02' }).activeHashes(ask(), pool, NO_HASHES),
      tracking.activeHashes(ask(), { ...pool, model: 'other' }, NO_HASHES),
      tracking.activeHashes(ask(), { ...pool, blockSizeTokens: 5 }, NO_HASHES),
      tracking.activeHashes(ask({ routing: { lora_name: 'a' } }), pool, NO_HASHES),
      tracking.activeHashes(ask({ routing: { cache_salt: 'a' } }), pool, NO_HASHES),
      hashBlocks(tokens(10), { blockSizeTokens: 4 }).sequence,
    ];
    expect(new Set(names.map((each) => numbersOf(each)[0])).size).toBe(names.length);
    expect(tracking.activeHashes(ask({ routing: { lora_name: '', cache_salt: '' } }), pool, NO_HASHES)).toEqual(
      names[0],
    );
  });

  it('gives equal prefixes equal names, and no others', () => {
    const [long, short] = [tokens(4000), tokens(4000).subarray(0, 2004)];
    const all = tracking.activeHashes(ask({ tokenIds: long }), pool, NO_HASHES);
    expect(tracking.activeHashes(ask({ tokenIds: short }), pool, NO_HASHES)).toEqual(all.subarray(0, 2 * 501));
    const other = long.map((token, at) => (at === 2000 ? 7 : token));
    const named = tracking.activeHashes(ask({ tokenIds: other }), pool, NO_HASHES);
    expect(named.subarray(0, 1000)).toEqual(all.subarray(0, 1000));
    expect(new Set([...numbersOf(named).slice(500), ...numbersOf(all)]).size).toBe(1500);
  });

  it('names the public hashes of a prompt that another process has hashed', () => {
    const prompts = [tokens(64), tokens(40)].map((each) => hashBlocks(each, { blockSizeTokens: 4 }));
    const [one, two] = prompts.map((hashes) => tracking.activeHashes(ask({ tokenIds: undefined }), pool, hashes));
    expect(one).toHaveLength(32);
    expect(two).toEqual(one!.subarray(0, 20));
    expect(one!.subarray(0, 2)).not.toEqual(prompts[0]!.sequence.subarray(0, 2));
  });
});
