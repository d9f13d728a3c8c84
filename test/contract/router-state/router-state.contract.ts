import { afterEach, describe, expect, it } from 'vitest';
import type { RouterState } from '../../../shared/router-state/index.ts';
import { rememberedBy } from '../../support/remembered-by.ts';

/** Handles on one shared state, for one test. */
export interface StateUnderTest {
  open(): Promise<RouterState>;
  /** Loses answers from now on: each call may reach the table and its caller not hear of it. Absent = cannot happen. */
  loseAnswers?(share: number): void;
  close(): Promise<void>;
}

const never = new AbortController().signal;
/** Tests what every `RouterState` does. */
export function describeRouterState(name: string, start: () => Promise<StateUnderTest>): void {
  describe(`${name} router state`, () => {
    let under: StateUnderTest;
    const open = async (): Promise<RouterState> => {
      under = await start();
      return under.open();
    };
    afterEach(() => under.close());

    const lease = { namespace: 'dyn amo', name: 'index/back/end' };

    describe('leases', () => {
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

      it('expire in the table’s time, where it has one', async () => {
        const state = await open();
        await state.readLease(lease, never); // the first answer tells the time
        const row = await state.takeLease(lease, { holder: 'a', ttlMs: 10_000, seenFence: undefined }, never);
        expect(Math.abs((row?.expiresAtMs ?? 0) - (state.nowMs() ?? Date.now()) - 10_000)).toBeLessThan(5000);
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
        // an old version
        expect(await state.movePointer(pointer, { to: place(30), fence: 9, seen: first }, never)).toBe(false);
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
        // read from the old pointer
        expect(await state.movePointer(pointer, { to: place(20), fence: 4, seen }, never)).toBe(false);
        expect(await state.movePointer(pointer, { to: place(20), fence: 4, seen: undefined }, never)).toBe(true);
        expect(await state.readPointer(pointer, never)).toMatchObject({ ...place(20), previous: undefined });
      });

      it('point where they were moved to when answers get lost, and a repeated move says so or not', async () => {
        const state = await open();
        under.loseAnswers?.(0.4);
        for (let at = 1; at <= 10; at++) {
          const seen = await state.readPointer(pointer, never);
          await state.movePointer(pointer, { to: place(at), fence: 1, seen }, never);
          expect(await state.readPointer(pointer, never)).toMatchObject({ ...place(at), version: at });
        }
        under.loseAnswers?.(0);
      });

      it('go where one of two writers says', async () => {
        const state = await open();
        const moves = await Promise.all(
          [1, 2, 3].map((at) => state.movePointer(pointer, { to: place(at), fence: 1, seen: undefined }, never)),
        );
        expect(moves.filter(Boolean)).toHaveLength(1);
      });
    });

    it('leaves nothing behind at a signal whose calls have ended', async () => {
      const state = await open();
      const { signal } = new AbortController();
      await Promise.all([state.readLease(lease, signal), state.readPointer(lease, signal)]);
      await state.takeLease(lease, { holder: 'a', ttlMs: 60_000, seenFence: undefined }, signal);
      await state.renewLease(lease, 'a', 60_000, signal);
      expect(rememberedBy(signal)).toBe(0);
    });

    it('rejects with the reason of a signal that aborts', async () => {
      const state = await open();
      await expect(state.readLease(lease, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
    });

    it('refuses to work once it is closed', async () => {
      const state = await open();
      state.close();
      await expect(state.readPointer(lease, never)).rejects.toMatchObject({ code: 'closed' });
    });
  });
}
