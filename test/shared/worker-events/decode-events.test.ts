import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../shared/engines/index.ts';
import { toRouterEvent } from '../../../shared/worker/events/event-records.ts';
import { decodeRouterEvents } from '../../../shared/worker-events/index.ts';
import { decodeRouterEvent } from '../../../shared/worker-events/kv-events.ts';

/** Larger than what a JSON number holds exactly. */
const BIG = 0xfedc_ba98_7654_3210n;
const BIG_PAIR = [0x7654_3210, 0xfedc_ba98];

function dynamo(data: unknown, more: object = {}): unknown {
  return { worker_id: 7, ...more, event: { event_id: 3, dp_rank: 1, data } };
}

function decode(record: unknown) {
  const event = decodeRouterEvent(record);
  if (typeof event === 'string') throw new Error(event);
  return event;
}

describe('an event in the form of Dynamo', () => {
  const blocks = [{ block_hash: BIG, tokens_hash: 5, mm_extra_info: null }];

  it.each([
    ['bigints', BIG],
    ['decimal text', BIG.toString()],
  ])('is read with hashes as %s', (_, hash) => {
    const data = {
      stored: { parent_hash: hash, start_position: null, blocks: [{ block_hash: hash, tokens_hash: 5 }] },
    };
    expect(decode(dynamo(data))).toEqual({
      workerId: '7',
      dpRank: 1,
      eventId: 3,
      change: {
        kind: 'stored',
        tier: 'device',
        parent: BIG_PAIR,
        blockHashes: Uint32Array.from(BIG_PAIR),
        tokensHashes: Uint32Array.of(5, 0),
      },
    });
  });

  it('is read when it removes and clears', () => {
    expect(decode(dynamo({ removed: { block_hashes: [1, BIG] } })).change).toEqual({
      kind: 'removed',
      tier: 'device',
      blockHashes: Uint32Array.of(1, 0, ...BIG_PAIR),
    });
    expect(decode(dynamo('cleared')).change).toEqual({ kind: 'cleared' });
  });

  it.each([
    [{ storage_tier: 'host_pinned' }, 'host_pinned'],
    [{ storage_tier: 'disk' }, 'disk'],
    [{ storage_tier: 'external' }, 'external'],
    [{ medium: 'GPU' }, 'device'],
    [{ medium: 'CPU_PINNED' }, 'host_pinned'],
    [{ medium: 'somewhere' }, 'external'],
    [{ residency_domain: 'cache_owner', state_source: 'x', session_id: 'y' }, 'device'],
  ])('names its tier: %o is %s', (more, tier) => {
    expect(decode(dynamo({ stored: { parent_hash: null, blocks } }, more)).change).toMatchObject({ tier });
  });

  it('counts for rank 0 when it names none', () => {
    expect(decode({ worker_id: '255', event: { event_id: 1, data: 'cleared' } })).toMatchObject({
      workerId: 'ff',
      dpRank: 0,
    });
  });
});

describe('an event that cannot be used', () => {
  const skipped = (payload: unknown): string[] => {
    const reasons: string[] = [];
    expect(decodeRouterEvents(payload, (reason) => reasons.push(reason))).toEqual([]);
    return reasons;
  };

  it('is passed over when its domain is unknown', () => {
    expect(skipped(dynamo('cleared', { residency_domain: 'moon' }))).toEqual(['unsupported_residency_domain']);
  });

  it('is passed over when a number was rounded by JSON', () => {
    expect(skipped(dynamo({ removed: { block_hashes: [2 ** 60] } }))).toEqual(['malformed']);
  });

  it('is passed over when it is larger than any prompt', () => {
    expect(skipped(dynamo({ removed: { block_hashes: new Uint8Array(8 * 300_000) } }))).toEqual(['too_large']);
    expect(skipped(Array.from({ length: 4097 }, () => 0))).toEqual(['too_large']);
    expect(skipped(Array.from({ length: 4096 }, () => 0))).toHaveLength(4096);
  });

  it('never throws, whatever it is', () => {
    const anything = fc.anything({ withBigInt: true, withTypedArray: true });
    const shaped = fc.record({
      worker_id: fc.oneof(fc.constant('7'), anything),
      event: fc.record({
        event_id: fc.oneof(fc.constant(1), anything),
        data: fc.oneof(
          anything,
          fc.record({ stored: fc.record({ parent_hash: anything, blocks: fc.array(anything) }) }),
          fc.record({ removed: fc.record({ block_hashes: fc.oneof(fc.array(anything), fc.uint8Array()) }) }),
        ),
      }),
    });
    fc.assert(
      fc.property(fc.oneof(anything, fc.array(shaped)), (payload) => {
        decodeRouterEvents(payload, () => {});
      }),
    );
  });
});

describe('an event of a worker of ours', () => {
  it('reads back as it was written, in either form', () => {
    const words = fc.uint8Array({ minLength: 0, maxLength: 8 }).map(({ length }) => length);
    const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
    const event = fc
      .tuple(words, u32, fc.boolean(), fc.constantFrom('stored', 'removed', 'cleared'))
      .map(([count, seed, hasParent, kind]): KvEvent => {
        const pairs = (salt: number): Uint32Array =>
          Uint32Array.from({ length: 2 * count }, (_, at) => (seed * (at + salt)) >>> 0);
        if (kind === 'cleared') return { kind, dpRank: 2 };
        if (kind === 'removed') return { kind, dpRank: 2, blockHashes: pairs(1) };
        const parentHash = hasParent ? ([seed, count] as const) : undefined;
        return { kind: 'stored', dpRank: 2, parentHash, blockHashes: pairs(1), tokensHashes: pairs(7) };
      });
    fc.assert(
      fc.property(event, (written) => {
        const { change, ...place } = decode(toRouterEvent('2748', 9, written));
        expect(place).toEqual({ workerId: 'abc', dpRank: 2, eventId: 9 });
        const { dpRank: _, ...rest } = written;
        const { parentHash, ...expected } = { parentHash: undefined, ...rest };
        const parent = written.kind === 'stored' ? { parent: parentHash } : {};
        expect(change).toEqual(
          written.kind === 'cleared' ? { kind: 'cleared' } : { tier: 'device', ...parent, ...expected },
        );
      }),
    );
  });
});
