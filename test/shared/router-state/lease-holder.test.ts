import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { LeaseHolder, type RouterState } from '../../../shared/router-state/index.ts';
import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { type Fault, FaultLine } from './faults.ts';

const never = new AbortController().signal;
const TTL_MS = 300;
const LEASE = { namespace: 'ns', name: 'router' };
const CALLS = ['readLease', 'takeLease', 'renewLease', 'endLease'] as const;

function world(tableEpochMs = 1_700_000_000_000) {
  const clock = new VirtualClock();
  const tableClock = { ...clock, wallMs: () => tableEpochMs + Math.floor(clock.nowMs()), nowMs: () => clock.nowMs() };
  const hub = new MemoryRouterStateHub(tableClock as VirtualClock);
  let seed = 0;
  const holder = (fault: Fault = { kind: 'none' }) => {
    const faults = new FaultLine(fault);
    const state = faults.around<RouterState>('state', hub.open(), CALLS);
    const events: string[] = [];
    const lease = new LeaseHolder({
      state,
      lease: LEASE,
      clock,
      random: seededRandom(++seed),
      ttlMs: TTL_MS,
      onAcquired: () => events.push('acquired'),
      onLost: () => events.push('lost'),
      onProblem: () => {},
    });
    lease.start();
    return { lease, events, faults };
  };
  return { clock, hub, holder };
}

describe('a lease', () => {
  it('is held by one of several, and by the next one at once when it is given back', async () => {
    const { clock, holder } = world();
    const [first, second] = [holder(), holder()];
    await clock.advance(5 * TTL_MS);
    expect([first.lease.fence, second.lease.fence].filter((fence) => fence !== undefined)).toHaveLength(1);
    const before = first.lease.fence ?? 0;
    await first.lease.stop(never);
    expect(first.events).toEqual(['acquired', 'lost']);
    await clock.advance(TTL_MS / 2);
    expect(second.lease.fence).toBeGreaterThan(before);
    await second.lease.stop(never);
    expect(clock.pendingTimers).toBe(0);
  });

  it('of a dead holder is taken after its time to live, and not before', async () => {
    const { clock, holder } = world();
    const dead = holder({ kind: 'crash', step: 6, when: 'before' });
    await clock.advance(10);
    const heir = holder();
    let takenAtMs: number | undefined;
    let deadSinceMs: number | undefined;
    for (let step = 0; step < 400; step++) {
      await clock.advance(5);
      expect(dead.lease.fence !== undefined && heir.lease.fence !== undefined).toBe(false);
      if (dead.faults.isDead) deadSinceMs ??= clock.nowMs();
      if (heir.lease.fence !== undefined) takenAtMs ??= clock.nowMs();
    }
    const waitedMs = (takenAtMs ?? 0) - (deadSinceMs ?? 0);
    expect(waitedMs).toBeGreaterThan(TTL_MS / 2);
    expect(waitedMs).toBeLessThan(3 * TTL_MS);
  });

  it('that has been expired for two times to live is taken at first sight', async () => {
    const { clock, hub, holder } = world();
    await hub.open().takeLease(LEASE, { holder: 'dead', ttlMs: TTL_MS, seenFence: undefined }, never);
    await clock.advance(3 * TTL_MS + 1);
    const heir = holder();
    await clock.advance(1);
    expect(heir.lease.fence).toBe(2);
  });

  it('is not taken from a holder that renews it, though the table’s clock is a minute ahead of every other', async () => {
    const { clock, holder } = world(1_700_000_060_000);
    const first = holder();
    await clock.advance(10);
    const second = holder();
    await clock.advance(20 * TTL_MS);
    expect(first.events).toEqual(['acquired']);
    expect(second.events).toEqual([]);
  });

  it('is not taken only because table time says so', async () => {
    const { clock, hub, holder } = world();
    const other = hub.open();
    await other.takeLease(LEASE, { holder: 'alive', ttlMs: TTL_MS, seenFence: undefined }, never);
    await clock.advance(TTL_MS + 1); // expired, and only now seen for the first time
    const taker = holder();
    await clock.advance(TTL_MS / 2);
    expect(taker.lease.fence).toBeUndefined();
    await other.renewLease(LEASE, 'alive', TTL_MS, never);
    await clock.advance(TTL_MS / 2);
    expect(taker.lease.fence).toBeUndefined();
  });

  it('is found again when the answer to its taking was lost', async () => {
    const { clock, holder } = world();
    const { lease, events } = holder({ kind: 'lose', step: 2 });
    await clock.advance(TTL_MS);
    expect(events).toEqual(['acquired']);
    expect(lease.fence).toBeGreaterThan(1);
  });

  it('never has two holders, and its fences only grow, whatever fails', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const { clock, holder } = world();
        const chance = seededRandom(seed);
        const flaky: Fault = { kind: 'flaky', share: 0.4, next: () => chance.next() };
        const holders = [holder(flaky), holder(flaky), holder(flaky)];
        let highest = 0;
        let owner: unknown;
        for (let step = 0; step < 150; step++) {
          await clock.advance(20);
          const held = holders.filter(({ lease }) => lease.fence !== undefined);
          expect(held.length).toBeLessThanOrEqual(1);
          const fence = held[0]?.lease.fence;
          if (fence === undefined) continue;
          expect(fence).toBeGreaterThanOrEqual(owner === held[0] ? highest : highest + 1);
          highest = fence;
          owner = held[0];
        }
        expect(highest).toBeGreaterThan(0);
      }),
      { numRuns: 25 },
    );
  });

  it('tells for how long it has been held, through renewals, and anew after another one had it', async () => {
    const { clock, holder } = world();
    const [first, second] = [holder(), holder()];
    await clock.advance(10);
    expect([first.lease.heldMs, second.lease.heldMs]).toEqual([10, undefined]);
    for (let round = 0; round < 10; round++) await clock.advance(100);
    expect([first.lease.heldMs, second.lease.heldMs]).toEqual([1010, undefined]);
    await first.lease.stop(never);
    await clock.advance(200);
    expect(first.lease.heldMs).toBeUndefined();
    expect(second.lease.heldMs).toBeLessThanOrEqual(200);
    for (let round = 0; round < 10; round++) await clock.advance(100);
    expect(second.lease.heldMs).toBeGreaterThanOrEqual(1000);
  });
});
