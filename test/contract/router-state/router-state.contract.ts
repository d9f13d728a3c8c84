import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { RankWeight } from '../../../shared/router/scheduler/index.ts';
import {
  type LoadReport,
  loadOf,
  NO_LOAD,
  type PoolAddress,
  type RouterState,
} from '../../../shared/router/state/index.ts';

/** Handles on one shared state, for one test. */
export interface StateUnderTest {
  open(): Promise<RouterState>;
  /** Loses answers from now on: each call may reach the table and its caller not hear of it. Absent = cannot happen. */
  loseAnswers?(share: number): void;
  close(): Promise<void>;
}

const never = new AbortController().signal;
const pool: PoolAddress = { namespace: 'dyn amo', component: 'back/end', endpoint: 'generate' };
const rank = { workerId: '1fffffffffffff', dpRank: 1 };

/** Amounts of `requests` requests, 10 blocks and 100 tokens each. */
export function amounts(requests: number): RankWeight {
  return { requests, decodeBlocks: 10 * requests, prefillTokens: 100 * requests };
}

export function someReport(number: number, fields: Partial<LoadReport> = {}): LoadReport {
  return { rank, number, active: NO_LOAD, acked: NO_LOAD, kvUsedBlocks: 0, ...fields };
}

/** What every `RouterState` does. */
export function describeRouterState(name: string, start: () => Promise<StateUnderTest>): void {
  describe(`${name} router state`, () => {
    let under: StateUnderTest;
    const open = async (): Promise<RouterState> => {
      under = await start();
      return under.open();
    };
    afterEach(() => under.close());

    describe('counters', () => {
      it('shows what a worker reported and what was reserved, to every participant', async () => {
        const worker = await open();
        const router = await under.open();
        expect(await worker.report(pool, someReport(1, { active: amounts(2), kvUsedBlocks: 7 }), never)).toEqual(
          NO_LOAD,
        );
        const change = { rank, amounts: amounts(3), deciderId: 'ab', number: 1 };
        expect(await router.reserve(pool, change, never)).toBe(true);
        const [row] = await router.loads(pool, never);
        expect(row).toMatchObject({ rank, active: amounts(2), reserved: amounts(3), acked: NO_LOAD, kvUsedBlocks: 7 });
        expect(row?.reportedAtMs).toBeGreaterThan(0);
        expect(await worker.report(pool, someReport(2, { acked: amounts(1) }), never)).toEqual(amounts(3));
        const [after] = await router.loads(pool, never);
        expect(after && loadOf(after)).toEqual(amounts(2));
      });

      it('counts a change once, however often it is sent', async () => {
        const state = await open();
        await state.report(pool, someReport(1), never);
        const change = { rank, amounts: amounts(3), deciderId: 'ab', number: 4 };
        for (let time = 0; time < 3; time++) expect(await state.reserve(pool, change, never)).toBe(true);
        await state.reserve(pool, { ...change, number: 5 }, never);
        expect(await state.reserve(pool, change, never)).toBe(true); // a copy that was late
        expect(await state.report(pool, someReport(2), never)).toEqual(amounts(6));
      });

      it('takes back what is released', async () => {
        const state = await open();
        await state.report(pool, someReport(1), never);
        await state.reserve(pool, { rank, amounts: amounts(3), deciderId: 'ab', number: 1 }, never);
        await state.release(pool, { rank, amounts: amounts(2), deciderId: 'ab', number: 2 }, never);
        expect(await state.report(pool, someReport(2), never)).toEqual(amounts(1));
      });

      it('reserves nothing at a rank that nobody reports, and leaves no trace of it', async () => {
        const state = await open();
        const change = { rank, amounts: amounts(1), deciderId: 'ab', number: 1 };
        expect(await state.reserve(pool, change, never)).toBe(false);
        await state.report(pool, someReport(1), never);
        await state.withdraw(pool, rank, never);
        await state.withdraw(pool, rank, never);
        expect(await state.reserve(pool, change, never)).toBe(false);
        expect(await state.loads(pool, never)).toEqual([]);
      });

      it('forgets a rank that has not reported since it was seen, and no other', async () => {
        const state = await open();
        const sweeper = await under.open();
        const other = { ...rank, dpRank: 0 };
        for (const one of [rank, other]) await state.report(pool, someReport(1, { rank: one }), never);
        const seen = await sweeper.loads(pool, never);
        expect(seen.map(({ reportNumber }) => reportNumber)).toEqual([1, 1]);
        await state.report(pool, someReport(2, { rank: other, active: amounts(1) }), never);
        const swept = await Promise.all(seen.map(async (row) => [row.rank, await sweeper.sweep(pool, row, never)]));
        expect(swept).toEqual(
          expect.arrayContaining([
            [rank, true],
            [other, false],
          ]),
        );
        expect(await sweeper.loads(pool, never)).toMatchObject([{ rank: other, active: amounts(1) }]);
        const change = { rank, amounts: amounts(1), deciderId: 'ab', number: 1 };
        expect(await state.reserve(pool, change, never)).toBe(false);
        expect(await sweeper.sweep(pool, { rank, reportNumber: 1 }, never)).toBe(false);
        expect(await state.report(pool, someReport(3), never)).toEqual(NO_LOAD); // it lives after all
        expect(await state.reserve(pool, change, never)).toBe(true);
      });

      it('keeps the newest report when an older one arrives after it', async () => {
        const state = await open();
        await state.report(pool, someReport(2, { active: amounts(2) }), never);
        await state.report(pool, someReport(1, { active: amounts(1) }), never);
        expect((await state.loads(pool, never))[0]?.active).toEqual(amounts(2));
      });

      it('keeps pools, workers and ranks apart', async () => {
        const state = await open();
        const other = { ...pool, endpoint: 'generate2' };
        const ranks = ['a', 'b', 'c0ffee'].flatMap((workerId) => [0, 1].map((dpRank) => ({ workerId, dpRank })));
        for (const one of ranks) await state.report(pool, someReport(1, { rank: one }), never);
        await state.report(other, someReport(1, { active: amounts(9) }), never);
        const seen = (await state.loads(pool, never)).map((row) => row.rank);
        expect(seen).toHaveLength(ranks.length);
        expect(seen).toEqual(expect.arrayContaining(ranks));
        expect((await state.loads(other, never)).map((row) => row.active)).toEqual([amounts(9)]);
      });

      it('adds up what many deciders do at once', async () => {
        const state = await open();
        await state.report(pool, someReport(1), never);
        const random = seededRandom(3);
        const deciders = Array.from({ length: 12 }, () => random.instanceId());
        await Promise.all(
          deciders.map(async (deciderId) => {
            for (let number = 1; number <= 5; number++) {
              await state.reserve(pool, { rank, amounts: amounts(1), deciderId, number }, never);
            }
          }),
        );
        expect(await state.report(pool, someReport(2), never)).toEqual(amounts(60));
      });

      it('agrees with a plain sum after any sequence of changes, some of them sent twice', async () => {
        const state = await open();
        let run = 0;
        await fc.assert(
          fc.asyncProperty(
            fc.array(fc.tuple(fc.integer({ min: -5, max: 9 }), fc.boolean()), { maxLength: 8 }),
            async (changes) => {
              const own = { workerId: (++run).toString(16), dpRank: 0 };
              await state.report(pool, someReport(1, { rank: own }), never);
              let sum = 0;
              for (const [at, [requests, isTwice]] of changes.entries()) {
                const change = { rank: own, amounts: amounts(requests), deciderId: 'd', number: at + 1 };
                await state.reserve(pool, change, never);
                if (isTwice) await state.reserve(pool, change, never);
                sum += requests;
              }
              expect((await state.report(pool, someReport(2, { rank: own }), never)).requests).toBe(sum);
            },
          ),
          { numRuns: 10 },
        );
      });

      it('loses and repeats nothing when answers get lost', async () => {
        const state = await open();
        await state.report(pool, someReport(1), never);
        under.loseAnswers?.(0.4);
        for (let number = 1; number <= 20; number++) {
          await state.reserve(pool, { rank, amounts: amounts(1), deciderId: 'ab', number }, never);
        }
        await state.report(pool, someReport(2, { active: amounts(5) }), never);
        under.loseAnswers?.(0);
        expect((await state.loads(pool, never))[0]).toMatchObject({ active: amounts(5), reserved: amounts(20) });
      });
    });

    describe('fleet items', () => {
      it('gives every copy of a cell back as it was written', async () => {
        const state = await open();
        const body = Uint8Array.from({ length: 7900 }, (_, at) => at % 256);
        const beforeMs = state.nowMs();
        expect(await state.writeFleetItem({ pool, cell: 3, copy: 2 }, body, 1, never)).toBe(true);
        const row = await (await under.open()).readFleetItem({ pool, cell: 3, copy: 2 }, never);
        expect(Buffer.from(row?.body ?? []).equals(body)).toBe(true);
        expect(Math.abs((row?.writtenAtMs ?? 0) - beforeMs)).toBeLessThan(5000); // the Date header knows seconds
        expect(await state.readFleetItem({ pool, cell: 3, copy: 1 }, never)).toBeUndefined();
      });

      it('refuses a writer whose fence is older than the last one', async () => {
        const state = await open();
        const key = { pool, cell: 0, copy: 0 };
        await state.writeFleetItem(key, Uint8Array.of(5), 5, never);
        expect(await state.writeFleetItem(key, Uint8Array.of(4), 4, never)).toBe(false);
        expect(await state.writeFleetItem(key, Uint8Array.of(6), 5, never)).toBe(true);
        expect((await state.readFleetItem(key, never))?.body[0]).toBe(6);
      });

      it('adds up the reads that readers tell of', async () => {
        const state = await open();
        expect(await state.fleetReads(pool, never)).toBe(0);
        await Promise.all([100, 100, 50].map((reads) => state.countFleetReads(pool, reads, never)));
        expect(await state.fleetReads(pool, never)).toBe(250);
      });
    });

    describe('leases', () => {
      const lease = { namespace: 'ns', name: 'router' };

      it('go to one holder, whose fence grows with every writing', async () => {
        const state = await open();
        expect(await state.readLease(lease, never)).toBeUndefined();
        const take = (holder: string, seenFence?: number) =>
          state.takeLease(lease, { holder, ttlMs: 500, seenFence }, never);
        expect(await take('a')).toMatchObject({ holder: 'a', fence: 1, ttlMs: 500 });
        expect(await take('b')).toBeUndefined();
        expect(await state.renewLease(lease, 'b', 500, never)).toBeUndefined();
        expect(await state.renewLease(lease, 'a', 500, never)).toMatchObject({ fence: 2 });
        expect(await take('b', 1)).toBeUndefined(); // it was renewed in between
        expect(await take('b', 2)).toMatchObject({ holder: 'b', fence: 3 });
        expect(await state.renewLease(lease, 'a', 500, never)).toBeUndefined();
      });

      it('are taken by one of many', async () => {
        const state = await open();
        const taken = await Promise.all(
          ['a', 'b', 'c', 'd'].map((holder) =>
            state.takeLease(lease, { holder, ttlMs: 500, seenFence: undefined }, never),
          ),
        );
        expect(taken.filter((row) => row !== undefined)).toHaveLength(1);
      });

      it('are free at once when given back, and only by their holder', async () => {
        const state = await open();
        await state.takeLease(lease, { holder: 'a', ttlMs: 60_000, seenFence: undefined }, never);
        await state.endLease(lease, 'b', never);
        expect((await state.readLease(lease, never))?.holder).toBe('a');
        await state.endLease(lease, 'a', never);
        expect(await state.readLease(lease, never)).toMatchObject({ holder: '', fence: 2, expiresAtMs: 0 });
      });

      it('expire in the table’s time', async () => {
        const state = await open();
        await state.readLease(lease, never); // the first answer tells the time
        const row = await state.takeLease(lease, { holder: 'a', ttlMs: 10_000, seenFence: undefined }, never);
        expect(Math.abs((row?.expiresAtMs ?? 0) - state.nowMs() - 10_000)).toBeLessThan(5000);
      });
    });

    describe('snapshot pointers', () => {
      const pointer = { namespace: 'ns', name: 'backend' };
      const place = (sequence: number) => ({ createdAt: '2026', sequence, object: `o${sequence}` });

      it('move on version and fence, and remember the one before', async () => {
        const state = await open();
        expect(await state.readPointer(pointer, never)).toBeUndefined();
        expect(await state.movePointer(pointer, { to: place(10), fence: 3, seen: undefined }, never)).toBe(true);
        const first = await state.readPointer(pointer, never);
        expect(first).toEqual({ ...place(10), fence: 3, version: 1, previous: undefined });
        expect(await state.movePointer(pointer, { to: place(20), fence: 2, seen: first }, never)).toBe(false); // robbed
        expect(await state.movePointer(pointer, { to: place(20), fence: 3, seen: undefined }, never)).toBe(false);
        expect(await state.movePointer(pointer, { to: place(20), fence: 4, seen: first }, never)).toBe(true);
        expect(await state.movePointer(pointer, { to: place(30), fence: 9, seen: first }, never)).toBe(false); // old version
        const second = await (await under.open()).readPointer(pointer, never);
        expect(second).toEqual({ ...place(20), fence: 4, version: 2, previous: place(10) });
      });

      it('can be dropped, and begin again', async () => {
        const state = await open();
        await state.dropPointer(pointer, never);
        await state.movePointer(pointer, { to: place(10), fence: 3, seen: undefined }, never);
        const seen = await state.readPointer(pointer, never);
        const other = { ...pointer, name: 'other' };
        await state.movePointer(other, { to: place(5), fence: 1, seen: undefined }, never);
        await (await under.open()).dropPointer(pointer, never);
        expect(await state.readPointer(pointer, never)).toBeUndefined();
        expect(await state.readPointer(other, never)).toMatchObject(place(5));
        expect(await state.movePointer(pointer, { to: place(20), fence: 4, seen }, never)).toBe(false); // saw the old one
        expect(await state.movePointer(pointer, { to: place(20), fence: 4, seen: undefined }, never)).toBe(true);
        expect(await state.readPointer(pointer, never)).toMatchObject({ ...place(20), previous: undefined });
      });

      it('go where one of two writers says', async () => {
        const state = await open();
        const moves = await Promise.all(
          [1, 2, 3].map((at) => state.movePointer(pointer, { to: place(at), fence: 1, seen: undefined }, never)),
        );
        expect(moves.filter(Boolean)).toHaveLength(1);
      });
    });

    it('rejects with the reason of a signal that aborts', async () => {
      const state = await open();
      await expect(state.loads(pool, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
    });

    it('refuses to work once it is closed', async () => {
      const state = await open();
      state.close();
      await expect(state.fleetReads(pool, never)).rejects.toMatchObject({ code: 'closed' });
    });
  });
}
