import fc from 'fast-check';
import { pack } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import {
  decodeEventBatch,
  type EngineEvent,
  EventBatchError,
} from '../../../../shared/engines/kv-stream/engine-events.ts';
import { recordedEvents } from './recorded-events.ts';

/** A hash as the recording writes it: decimal, or 0x and all bytes, of which the last 8 count. */
function pairOf(hash: string): number[] {
  const value = BigInt(hash) & 0xffff_ffff_ffff_ffffn;
  return [Number(value & 0xffff_ffffn), Number(value >> 32n)];
}

describe('batches of KV events', () => {
  it('reads every recorded message of vLLM, in both layouts and with both kinds of hashes', () => {
    const records = recordedEvents();
    expect(records).toHaveLength(45);
    for (const { payload, decoded } of records) {
      const batch = decodeEventBatch(payload);
      const [timestampSecs, events, rank] = decoded;
      expect(batch).toMatchObject({ timestampSecs, unreadable: 0 });
      expect(batch.dataParallelRank).toBe(rank ?? undefined);
      expect(batch.events.map(plain)).toEqual(events.map((event) => expected(named(event))));
    }
  });

  it('reads the example of an array layout with one block of four tokens', () => {
    const hex = '93cb3ff8000000000000919' + '8ab426c6f636b53746f7265649101c09401020304' + '04c0a3475055c000';
    const { events, timestampSecs, dataParallelRank } = decodeEventBatch(Buffer.from(hex, 'hex'));
    expect({ timestampSecs, dataParallelRank }).toEqual({ timestampSecs: 1.5, dataParallelRank: 0 });
    expect(events).toMatchObject([{ kind: 'stored', blockSizeTokens: 4, medium: 'GPU', parentHash: undefined }]);
  });

  it('reads what older and newer engines send: fewer fields, unknown ones, maps and signed hashes of SGLang', () => {
    const older = decodeEventBatch(pack([1, [['BlockStored', [5], 4, [1, 2], 2, null]]]));
    expect(older.events.map(plain)).toMatchObject([
      { hashes: [5, 0], parent: [4, 0], tokens: [1, 2], medium: undefined },
    ]);
    const stored = {
      type: 'BlockStored',
      block_hashes: [-2n],
      parent_block_hash: null,
      token_ids: [9],
      block_size: 1,
      lora_id: null,
      medium: 'CPU_PINNED',
      cache_salt: 's',
      lora_name: 'ad',
      invented_later: { deep: [1, 2.5, 'x', true, null, 2n ** 63n] },
    };
    const sglang = decodeEventBatch(pack([1, [stored, { type: 'Whatever' }, ['BlockRemoved', [7n]]], 3]));
    expect(sglang.dataParallelRank).toBe(3);
    expect(sglang.unreadable).toBe(1);
    expect(sglang.events.map(plain)).toMatchObject([
      { hashes: [0xffff_fffe, 0xffff_ffff], medium: 'CPU_PINNED', loraName: 'ad', cacheSalt: 's' },
      { hashes: [7, 0] },
    ]);
  });

  it('takes the first token of each pair, by which SGLang with EAGLE names the places of its cache', () => {
    const pairs = [1, 2, 3, 4].map((token) => [token, token + 1]);
    const { events, unreadable } = decodeEventBatch(pack([1, [['BlockStored', [1, 2], null, pairs, 2, null]]]));
    expect(events.map(plain)).toMatchObject([{ hashes: [1, 0, 2, 0], tokens: [1, 2, 3, 4] }]);
    expect(unreadable).toBe(0);
  });

  it('leaves out stores whose tokens are neither ids nor pairs of ids, and takes those beside them', () => {
    const triple = ['BlockStored', [1], null, [[1, 2, 3]], 1, null];
    const texts = ['BlockStored', [1], null, [['1', 2]], 1, null];
    const wrong = { type: 'BlockStored', block_hashes: [1], token_ids: [1], block_size: 1, lora_name: 7 };
    const hashless = ['BlockStored', [Buffer.alloc(7)], null, [1], 1, null];
    const broken = ['BlockStored', [1], null, [1.5], 1, null];
    const fit = ['BlockRemoved', [1], null];
    const batch = decodeEventBatch(pack([1, [triple, texts, wrong, hashless, broken, fit]]));
    expect(batch).toMatchObject({ events: [{ kind: 'removed' }], unreadable: 5 });
  });

  it('refuses any bytes that are not a batch', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          decodeEventBatch(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(EventBatchError);
        }
      }),
    );
  });
});

function plain(event: EngineEvent): Record<string, unknown> {
  if (event.kind === 'cleared') return { kind: event.kind };
  const common = { kind: event.kind, hashes: [...event.blockHashes], medium: event.medium, group: event.group };
  if (event.kind === 'removed') return common;
  return {
    ...common,
    parent: event.parentHash && [...event.parentHash],
    tokens: [...event.tokenIds],
    blockSize: event.blockSizeTokens,
    loraName: event.loraName,
    cacheSalt: event.cacheSalt,
    extraKeys: event.extraKeys,
  };
}

const STORED = [
  'type',
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
];
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  BlockStored: [...STORED, 'extra_keys', 'group_idx'],
  BlockRemoved: ['type', 'block_hashes', 'medium', 'group_idx'],
  AllBlocksCleared: ['type'],
};

/** An event of either layout by the names of its fields. */
function named(event: unknown): Record<string, never> {
  if (!Array.isArray(event)) return event as Record<string, never>;
  return Object.fromEntries(FIELDS[event[0]]?.map((name, at) => [name, event[at]]) ?? []) as Record<string, never>;
}

function expected(event: Record<string, never>): Record<string, unknown> {
  const { type, block_hashes, parent_block_hash, token_ids, block_size, medium, lora_name, extra_keys, group_idx } =
    event;
  if (type === 'AllBlocksCleared') return { kind: 'cleared' };
  const common = {
    kind: type === 'BlockStored' ? 'stored' : 'removed',
    hashes: (block_hashes as unknown as string[]).flatMap(pairOf),
    medium: medium ?? undefined,
    group: group_idx ?? undefined,
  };
  if (type === 'BlockRemoved') return common;
  return {
    ...common,
    parent: parent_block_hash == null ? undefined : pairOf(parent_block_hash),
    tokens: token_ids,
    blockSize: block_size,
    loraName: lora_name ?? undefined,
    cacheSalt: undefined,
    extraKeys: extra_keys ?? undefined,
  };
}
