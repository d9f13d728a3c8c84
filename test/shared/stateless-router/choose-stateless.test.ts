import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyOfText, type RendezvousKey, seedOf } from '../../../shared/router/rendezvous.ts';
import {
  chooseStateless,
  type DemandedKey,
  type StatelessFleet,
} from '../../../shared/stateless-router/choose-stateless.ts';

interface LoadedWorker {
  readonly id: string;
  readonly load: number;
  readonly stableId?: string;
}

const SLACK = 4;
const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const anyKey: fc.Arbitrary<RendezvousKey> = fc.tuple(u32, u32);
const worker = fc.record({
  id: fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }).map((id) => id.toString(16)),
  load: fc.nat(50),
});
const workers = fc.uniqueArray(worker, { selector: ({ id }) => id, minLength: 1, maxLength: 40 });
const demanded: fc.Arbitrary<DemandedKey> = fc.record({
  key: anyKey,
  share: fc.double({ min: 0, max: 1, noNaN: true }),
  isOwn: fc.boolean(),
});
const levels = fc.array(demanded, { maxLength: 5 });

function fleetOf(all: readonly LoadedWorker[]): StatelessFleet {
  return {
    ids: all.map(({ id }) => id),
    seeds: Uint32Array.from(all, ({ id, stableId }) => seedOf(stableId ?? id)),
    loads: Float64Array.from(all, ({ load }) => load),
  };
}

function choose(
  all: readonly LoadedWorker[],
  asked: readonly DemandedKey[],
  draw: RendezvousKey = [1, 2],
): LoadedWorker {
  const open = Uint32Array.from(all, (_, at) => at);
  return all[chooseStateless({ levels: asked, draw, slack: SLACK }, fleetOf(all), open)] as LoadedWorker;
}

const own = (key: RendezvousKey): DemandedKey => ({ key, share: 0, isOwn: true });
const shared = (key: RendezvousKey, share: number): DemandedKey => ({ key, share, isOwn: false });
const idle = (count: number): readonly LoadedWorker[] =>
  Array.from({ length: count }, (_, at) => ({ id: (0x1000 + 7919 * at).toString(16), load: 0 }));

describe('a choice without state', () => {
  it('is the same in every process, whatever the order in which it knows the workers', () => {
    fc.assert(
      fc.property(levels, anyKey, workers, fc.func(fc.nat()), (asked, draw, fleet, order) => {
        const shuffled = [...fleet].sort((left, right) => order(left.id) - order(right.id));
        expect(choose(shuffled, asked, draw).id).toBe(choose(fleet, asked, draw).id);
      }),
    );
  });

  it('goes to no worker whose load is above 1.25 times the mean and the slack', () => {
    fc.assert(
      fc.property(levels, anyKey, workers, (asked, draw, fleet) => {
        const mean = fleet.reduce((sum, { load }) => sum + load, 0) / fleet.length;
        expect(choose(fleet, asked, draw).load).toBeLessThanOrEqual(1.25 * mean + SLACK);
      }),
    );
  });

  it('moves only the conversations of a worker that leaves, and to one that comes only those that it gets', () => {
    fc.assert(
      fc.property(fc.array(anyKey, { minLength: 1, maxLength: 20 }), workers, fc.nat(), (keys, fleet, at) => {
        const all = fleet.map(({ id }) => ({ id, load: 0 }));
        const gone = all[at % all.length] as LoadedWorker;
        const left = all.filter(({ id }) => id !== gone.id);
        if (left.length === 0) return;
        for (const key of keys) {
          const [before, after] = [choose(all, [own(key)]), choose(left, [own(key)])];
          if (before.id !== gone.id) expect(after.id).toBe(before.id);
        }
      }),
    );
  });

  it('moves no conversation of a shared beginning when a worker outside its own leaves', () => {
    fc.assert(
      fc.property(anyKey, anyKey, fc.integer({ min: 6, max: 30 }), fc.nat(), (prefix, conversation, count, at) => {
        const all = idle(count);
        const asked = [shared(prefix, 0.01), own(conversation)];
        const before = choose(all, asked);
        const gone = all[at % count] as LoadedWorker;
        const inSet = new Set(
          Array.from({ length: 200 }, (_, draw) => choose(all, [shared(prefix, 0.01)], [draw, 7]).id),
        );
        if (inSet.has(gone.id)) return;
        expect(
          choose(
            all.filter(({ id }) => id !== gone.id),
            asked,
          ).id,
        ).toBe(before.id);
      }),
    );
  });

  it('gives a worker that restarts under another id its prompts back, if it has a name that outlives it', () => {
    fc.assert(
      fc.property(levels, anyKey, workers, (asked, draw, fleet) => {
        const named = fleet.map(({ id }, at) => ({ id, load: 0, stableId: `worker-${at}` }));
        const restarted = named.map(({ load, stableId }, at) => ({ id: `f${at}`, load, stableId }));
        expect(choose(restarted, asked, draw).stableId).toBe(choose(named, asked, draw).stableId);
      }),
    );
  });

  it('spreads conversations evenly over all workers', () => {
    const fleet = idle(16);
    const counts = new Map<string, number>();
    for (let at = 0; at < 16_000; at++) {
      const { id } = choose(fleet, [own([Math.imul(at, 0x9e3779b1) >>> 0, at])]);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    expect(counts.size).toBe(16);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it.each([
    [0.001, 4],
    [0.15, 6], // 4.8 workers, and a quarter more
    [0.5, 20],
    [1, 32],
  ])('takes for a beginning with %d of the traffic %i of 32 workers', (share, size) => {
    const prefix = keyOfText('a system prompt');
    const chosen = new Set<string>();
    for (let at = 0; at < 2000; at++) chosen.add(choose(idle(32), [shared(prefix, share)], keyOfText(`r${at}`)).id);
    expect(chosen.size).toBe(size);
  });

  it('goes within the workers of a shared beginning where the conversation has its place, and elsewhere when all are loaded', () => {
    const prefix = keyOfText('a system prompt');
    const fleet = idle(32);
    const home = new Set<string>();
    for (let at = 0; at < 500; at++) home.add(choose(fleet, [shared(prefix, 0), own(keyOfText(`c${at}`))]).id);
    expect(home.size).toBe(4);
    const loaded = fleet.map(({ id }) => ({ id, load: home.has(id) ? 100 : 0 }));
    const away = choose(loaded, [shared(prefix, 0), own(keyOfText('c1'))]);
    expect(home.has(away.id)).toBe(false);
    const one = loaded.map(({ id, load }) => ({ id, load: id === [...home][2] ? 0 : load }));
    expect(choose(one, [shared(prefix, 0), own(keyOfText('c1'))]).id).toBe([...home][2]);
  });

  it('passes over workers that drain, while another is left', () => {
    const fleet = idle(3).map((each, at) => ({ ...each, load: at === 1 ? 0 : Number.POSITIVE_INFINITY }));
    for (const asked of [[own([1, 2])], [shared([1, 2], 1)]]) expect(choose(fleet, asked).id).toBe(fleet[1]?.id);
    const draining = fleet.map(({ id }) => ({ id, load: Number.POSITIVE_INFINITY }));
    expect(draining.map(({ id }) => id)).toContain(choose(draining, [own([1, 2])]).id);
  });
});
