import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { FileRouterState, LeaseHolder, type RouterState } from '../../../shared/router-state/index.ts';
import { FreezableClock, waitUntil } from '../../support/index.ts';
import { describeRouterState } from './router-state.contract.ts';

const root = mkdtempSync(join(tmpdir(), 'router-state-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folders = 0;
const newFolder = (): string => join(root, String(++folders));

describeRouterState('file', async () => {
  const folder = newFolder();
  return { open: async () => new FileRouterState({ folder, clock: systemClock }), close: async () => {} };
});

describe('router state in files', () => {
  const never = new AbortController().signal;
  const lease = { namespace: 'ns', name: 'index/backend' };

  it('is changed by one process at a time, of many', async () => {
    const folder = newFolder();
    const states = Array.from({ length: 4 }, () => new FileRouterState({ folder, clock: systemClock }));
    await states[0]!.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
    await Promise.all(states.flatMap((state) => [1, 2, 3, 4, 5].map(() => state.renewLease(lease, 'a', 500, never))));
    expect((await states[0]!.readLease(lease, never))?.fence).toBe(21);
  });

  it.each([0, 3_600_000, -3_600_000])(
    'is not held up by who died over a change, by a clock %d ms off',
    async (offMs) => {
      const folder = newFolder();
      const state = new FileRouterState({ folder, clock: new FreezableClock(systemClock, offMs) });
      await state.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
      const lock = join(folder, 'lease%2Fns%2Findex%2Fbackend.lock');
      writeFileSync(lock, '');
      expect(await state.renewLease(lease, 'a', 500, never)).toMatchObject({ fence: 2 });
    },
  );

  it('leaves a file to who has just begun to change it, by a clock that is an hour ahead', async () => {
    const folder = newFolder();
    const state = new FileRouterState({ folder, clock: new FreezableClock(systemClock, 3_600_000) });
    await state.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
    const lock = join(folder, 'lease%2Fns%2Findex%2Fbackend.lock');
    writeFileSync(lock, '');
    const renewed = state.renewLease(lease, 'a', 500, never);
    for (let reads = 0; reads < 10; reads++) await state.readLease(lease, never); // the other one looks meanwhile
    expect(existsSync(lock)).toBe(true);
    rmSync(lock);
    expect(await renewed).toMatchObject({ fence: 2 });
  });

  it('leaves a file to the process that was faster to find that another one had died over a change', async () => {
    const folder = newFolder();
    const lock = join(folder, 'lease%2Fns%2Findex%2Fbackend.lock');
    let looks = 0;
    const nowMs = (): number => {
      if (++looks === 2) {
        rmSync(lock); // by another process, which has it from now on
        writeFileSync(lock, '');
      }
      return looks < 2 ? 0 : 2000;
    };
    const state = new FileRouterState({ folder, clock: Object.assign(Object.create(systemClock), { nowMs }) });
    await state.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
    writeFileSync(lock, '');
    const renewed = state.renewLease(lease, 'a', 500, never);
    await waitUntil(() => looks > 5, { what: 'it has looked again' });
    expect(existsSync(lock)).toBe(true);
    rmSync(lock);
    expect(await renewed).toMatchObject({ fence: 2 });
    expect(readdirSync(folder)).toEqual(['lease%2Fns%2Findex%2Fbackend.json']);
  });

  it('leaves a file to who took it from a process that was stopped over its change', async () => {
    const folder = newFolder();
    const lock = join(folder, 'lease%2Fns%2Findex%2Fbackend.lock');
    let swap = (): void => {};
    const wallMs = (): number => {
      swap();
      return systemClock.wallMs();
    };
    const clock = Object.assign(Object.create(systemClock), { wallMs });
    const state = new FileRouterState({ folder, clock });
    await state.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
    swap = () => {
      rmSync(lock);
      writeFileSync(lock, '');
    };
    await expect(state.renewLease(lease, 'a', 500, never)).rejects.toThrow(/was taken by another process/);
    expect(existsSync(lock)).toBe(true);
    expect(await state.readLease(lease, never)).toMatchObject({ fence: 1 });
  });

  describe.each([0, 3_600_000, -3_600_000])('a lease, looked at by a clock %d ms off', (offMs) => {
    const opened = (clock: Clock, folder: string) => {
      let reads = 0;
      const state = new FileRouterState({ folder, clock });
      const readLease: RouterState['readLease'] = (...args) => {
        reads++;
        return state.readLease(...args);
      };
      const counting: RouterState = Object.assign(Object.create(state), { readLease, nowMs: () => state.nowMs() });
      const names = ['takeLease', 'renewLease', 'endLease'] as const;
      for (const name of names) Object.assign(counting, { [name]: state[name].bind(state) });
      return { state: counting, reads: () => reads };
    };
    const holding = (state: RouterState, clock: Clock, ttlMs: number): LeaseHolder => {
      const holder = new LeaseHolder({ state, lease, clock, random: systemRandom, ttlMs, onProblem: () => {} });
      holder.start();
      return holder;
    };

    it('is left to a holder that lives', async () => {
      const folder = newFolder();
      const alive = new FileRouterState({ folder, clock: systemClock });
      await alive.takeLease(lease, { holder: 'alive', ttlMs: 60_000, seenFence: undefined }, never);
      const clock = new FreezableClock(systemClock, offMs);
      const { state, reads } = opened(clock, folder);
      const holder = holding(state, clock, 60);
      await waitUntil(() => reads() > 3, { what: 'it has looked' });
      expect(holder.fence).toBeUndefined();
      await holder.stop(never);
      expect(await alive.readLease(lease, never)).toMatchObject({ holder: 'alive', fence: 1 });
    });

    it('is taken from a dead one once it has been seen unchanged for its time to live', async () => {
      const folder = newFolder();
      const dead = new FileRouterState({ folder, clock: systemClock });
      await dead.takeLease(lease, { holder: 'dead', ttlMs: 100, seenFence: undefined }, never);
      const clock = new FreezableClock(systemClock, offMs);
      const holder = holding(opened(clock, folder).state, clock, 2000);
      expect(await waitUntil(() => holder.fence)).toBe(2);
      await holder.stop(never);
    });
  });

  it('says what is wrong with its folder', async () => {
    writeFileSync(join(root, 'a-file'), '');
    const state = new FileRouterState({ folder: join(root, 'a-file'), clock: systemClock });
    const taking = state.takeLease(lease, { holder: 'a', ttlMs: 500, seenFence: undefined }, never);
    await expect(taking).rejects.toMatchObject({ code: 'unavailable' });
  });
});
