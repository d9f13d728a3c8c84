import { beforeEach, describe, expect, it } from 'vitest';
import { saltWithAdapter } from '../../../../shared/engines/kv-stream/adapter-salt.ts';
import { decodeEventBatch, type EngineEvent } from '../../../../shared/engines/kv-stream/engine-events.ts';
import { EventNormaliser } from '../../../../shared/engines/kv-stream/event-normaliser.ts';
import { hashBlocks, mediaHash } from '../../../../shared/tokens/index.ts';
import { recordedEvents } from './recorded-events.ts';

type Stored = Extract<EngineEvent, { kind: 'stored' }>;

const unusable: string[] = [];
const create = (blockSizeTokens = 32): EventNormaliser =>
  new EventNormaliser({ dpRank: 0, blockSizeTokens, onUnusable: (why) => unusable.push(why) });

function stored(fields: Partial<Stored> = {}): Stored {
  return {
    kind: 'stored',
    blockHashes: Uint32Array.of(1, 0),
    parentHash: undefined,
    tokenIds: Uint32Array.of(1, 2),
    blockSizeTokens: 2,
    extraKeys: undefined,
    loraId: undefined,
    loraName: undefined,
    cacheSalt: undefined,
    medium: undefined,
    group: undefined,
    cacheKind: undefined,
    ...fields,
  };
}

function tokensHash(event: ReturnType<EventNormaliser['apply']>): number[] {
  return event?.kind === 'stored' ? [...event.tokensHashes] : [];
}

const local = (tokens: readonly number[], scope: object = {}): number[] => [
  ...hashBlocks(Uint32Array.from(tokens), { blockSizeTokens: 2, ...scope }).local,
];

describe('KV events in our own terms', () => {
  beforeEach(() => {
    unusable.length = 0;
  });

  it('names every recorded block as a router names the prompt, salts and adapters included', () => {
    const scopes = new Map([
      [8, { cacheSalt: 'salt-A' }],
      [31, { cacheSalt: 'S1' }],
      [32, { loraName: 'ad1', cacheSalt: 'Z' }],
      [33, { loraName: 'ad1' }],
      [40, { loraName: 'ad1', cacheSalt: 'Z' }],
      [43, { cacheSalt: 'ab' }],
      [44, { loraName: 'ad' }],
    ]);
    for (const { n, payload } of recordedEvents()) {
      const normaliser = create();
      for (const event of decodeEventBatch(payload).events) {
        const ours = normaliser.apply(event);
        if (event.kind !== 'stored' || ours?.kind !== 'stored') continue;
        const scope = n === 37 ? { cacheSalt: 'salt-A' } : scopes.get(n);
        const { local: wanted } = hashBlocks(event.tokenIds, { blockSizeTokens: 32, ...scope });
        expect([n, ...ours.tokensHashes]).toEqual([n, ...wanted]);
        expect(ours.blockHashes).toEqual(event.blockHashes);
      }
    }
    expect(unusable).toEqual([]);
  });

  it('carries the salt of a prompt to the blocks that follow, until they are gone', () => {
    const normaliser = create(2);
    normaliser.apply(stored({ extraKeys: [['s']] }));
    const next = stored({ blockHashes: Uint32Array.of(2, 0), parentHash: Uint32Array.of(1, 0), extraKeys: [null] });
    expect(tokensHash(normaliser.apply(next))).toEqual(local([1, 2], { cacheSalt: 's' }));
    const third = stored({ blockHashes: Uint32Array.of(3, 0), parentHash: Uint32Array.of(2, 0) });
    expect(tokensHash(normaliser.apply(third))).toEqual(local([1, 2], { cacheSalt: 's' }));
    normaliser.apply({ kind: 'removed', blockHashes: Uint32Array.of(2, 0), medium: 'GPU', group: undefined });
    expect(tokensHash(normaliser.apply(third))).toEqual(local([1, 2]));
  });

  it('finds the adapter in the salt of an engine that names salts alone, as the request to it had them', () => {
    for (const scope of [
      { loraName: 'tuned' },
      { loraName: 'a:b/c ü', cacheSalt: 's:1' },
      { cacheSalt: 's' },
      { cacheSalt: 'adapter:tuned:' }, // a client's own
      { cacheSalt: 'adapter:%:' },
      {},
    ]) {
      const { loraName, cacheSalt }: { loraName?: string; cacheSalt?: string } = scope;
      const event = stored({ cacheSalt: saltWithAdapter(loraName, cacheSalt) });
      expect(tokensHash(create(2).apply(event))).toEqual(local([1, 2], scope));
      expect(tokensHash(create(2).apply({ ...event, loraName }))).toEqual(local([1, 2], scope)); // if it names both
      const twice = event.cacheSalt === undefined ? event : { ...event, extraKeys: [[event.cacheSalt]] };
      expect(tokensHash(create(2).apply(twice))).toEqual(local([1, 2], scope)); // if extra keys have the salt, too
    }
  });

  it('mixes media into the blocks that they stand in', () => {
    const id = 'a1'.repeat(32);
    const event = stored({
      blockHashes: Uint32Array.of(1, 0, 2, 0),
      tokenIds: Uint32Array.of(1, 2, 3, 4),
      extraKeys: [null, [[id, 5]]],
    });
    const mediaHashes = new Map([[1, [mediaHash(id)!]]]);
    expect(tokensHash(create(2).apply(event))).toEqual(local([1, 2, 3, 4], { mediaHashes }));
  });

  it('takes embeddings of any length for what identifies them', () => {
    const embeddings = [new Uint8Array(200_000).fill(1), new Uint8Array(200_000).fill(2)];
    const hashes = embeddings.map((bytes) => tokensHash(create(2).apply(stored({ extraKeys: [[bytes]] }))));
    expect(hashes[0]).not.toEqual(hashes[1]);
    expect(hashes[0]).not.toEqual(tokensHash(create(2).apply(stored({}))));
  });

  it('says in which tier a block lies, and knows the media of both engines', () => {
    const tiers = ['GPU', 'CPU', 'CPU_PINNED', 'STORAGE', 'DISK', 'EXTERNAL', undefined].map((medium) => {
      const event = create(2).apply(stored({ medium }));
      return event?.kind === 'stored' ? (event.tier ?? 'device') : undefined;
    });
    expect(tiers).toEqual(['device', 'host_pinned', 'host_pinned', 'disk', 'disk', 'external', 'device']);
    expect(create(2).apply(stored({ medium: 'TAPE' }))).toBeUndefined();
    expect(unusable).toEqual(['medium TAPE']);
  });

  it('follows the one group of blocks that holds whole prefixes', () => {
    const normaliser = create(2);
    const of = (group: number, cacheKind: string): Stored => stored({ group, cacheKind });
    expect(normaliser.apply(of(0, 'sliding_window'))).toBeUndefined();
    expect(normaliser.apply(of(1, 'full_attention'))).toBeDefined();
    expect(normaliser.apply(of(2, 'full_attention'))).toBeUndefined();
    const removed = (group: number) =>
      normaliser.apply({ kind: 'removed', blockHashes: Uint32Array.of(1, 0), medium: 'GPU', group });
    expect([removed(0), removed(1), removed(2)].map((event) => event?.kind)).toEqual([undefined, 'removed', undefined]);
    expect(unusable).toEqual([]);
  });

  it('reports stores as unusable that name too few tokens or none, but not those of groups that it leaves out', () => {
    const [few, none] = [{ tokenIds: Uint32Array.of(1) }, { tokenIds: new Uint32Array(0), blockSizeTokens: 0 }];
    const state = stored({
      group: 0,
      cacheKind: 'mamba',
      blockHashes: Uint32Array.of(1, 0),
      tokenIds: new Uint32Array(8),
    });
    for (const event of [stored(few), stored({ ...none, medium: 'CPU' }), state]) {
      expect(create(2).apply(event)).toBeUndefined();
    }
    expect(unusable).toEqual(['tokens that do not fill its blocks', expect.stringContaining('no tokens')]);
  });

  it('leaves out the unfilled last block of a prompt, which engines with several groups report', () => {
    const [group, cacheKind] = [0, 'full_attention'];
    const [one, two] = [Uint32Array.of(1, 0), Uint32Array.of(1, 0, 2, 0)];
    const normaliser = create(4);
    expect(normaliser.apply(stored({ group, cacheKind, blockHashes: one }))).toBeUndefined();
    expect(unusable).toEqual([]);
    normaliser.apply(stored({ group, cacheKind, blockHashes: two, tokenIds: Uint32Array.of(1, 2, 3, 4) }));
    expect(unusable).toEqual(['block size 2, not 4']);
  });

  it('leaves out blocks of another size, and of adapters that have a number only', () => {
    expect(create(4).apply(stored())).toBeUndefined();
    expect(create(2).apply(stored({ loraId: 1 }))).toBeUndefined();
    expect(unusable).toEqual(['block size 2, not 4', 'an adapter without a name']);
  });

  it('tells once that everything is gone, however often the engine does', () => {
    const normaliser = create(2);
    expect(normaliser.apply({ kind: 'cleared' })).toBeUndefined();
    normaliser.apply(stored());
    expect(normaliser.clear()).toEqual({ kind: 'cleared', dpRank: 0 });
    expect(normaliser.apply({ kind: 'cleared' })).toBeUndefined();
  });
});
