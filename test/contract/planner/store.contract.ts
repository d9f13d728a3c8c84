import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DecisionRecord, PlannerStore } from '../../../shared/planner/index.ts';
import { sampleOf } from '../../support/planner/fleet-story.ts';

const NEVER = new AbortController().signal;
const NOW = 1_800_000_000_000;
/** Length of a lease that was over a minute ago, whatever the clocks say. */
const OVER_MS = -60_000;

let groups = 0;
const newGroup = (): string => `ns#model-${groups++}-${process.pid}`;

export function someDecision(decisionId: number, parts: Partial<DecisionRecord> = {}): DecisionRecord {
  return {
    decisionId,
    status: 'PENDING',
    targets: { decode: decisionId + 1 },
    previous: { decode: 1 },
    reason: `decode 1 -> ${decisionId + 1}: because`,
    isAdvisory: false,
    configHash: 'abc',
    decidedAtMs: NOW + decisionId * 1000,
    figures: { held: 2, load_reason: 'scale_up' },
    ...parts,
  };
}

/**
 * Tests what every store of planners promises.
 * @param open opens two handles on the same data; the wall clock of the stores stands at `NOW`
 */
export function describePlannerStore(name: string, open: () => Promise<readonly [PlannerStore, PlannerStore]>): void {
  describe(`the ${name} store of planners`, () => {
    let one: PlannerStore;
    let other: PlannerStore;
    beforeAll(async () => {
      [one, other] = await open();
    });
    afterAll(async () => {
      await one?.close();
      await other?.close();
    });

    const commit = (group: string, version: number, decision?: DecisionRecord, store = one) =>
      store.commit(group, { version, state: `state ${version + 1}`, decision }, NEVER);

    it('knows nothing of a model at first', async () => {
      const group = newGroup();
      expect(await one.readState(group, NEVER)).toBeUndefined();
      expect(await one.decision(group, 0, NEVER)).toBeUndefined();
      expect(await one.decisions(group, { sinceMs: 0 }, NEVER)).toEqual([]);
      expect(await one.acknowledged(group, NEVER)).toBe(-1);
    });

    it('writes state, decision and tick as one, for everybody to read', async () => {
      const group = newGroup();
      const options = { 'decode/1-spot': { workers: { serving: 60, image: 12.5 }, gpuSeconds: 72.5 } };
      const tick = { atMs: NOW, reason: 'no change', figures: { running: 3 }, sample: sampleOf({ options }) };
      const decision = someDecision(0);
      expect(await one.commit(group, { version: 0, state: 'first', decision, tick }, NEVER)).toBe(true);
      expect(await other.readState(group, NEVER)).toEqual({ version: 1, state: 'first' });
      expect(await other.decision(group, 0, NEVER)).toEqual(decision);
      expect(await other.ticks(group, { sinceMs: 0 }, NEVER)).toEqual([tick]);
      expect(await other.groups(NEVER)).toContain(group);
    });

    it('refuses a state that was read before another process wrote, and writes nothing of it', async () => {
      const group = newGroup();
      expect(await commit(group, 0, someDecision(0))).toBe(true);
      const late = someDecision(1, { reason: 'too late' });
      expect(await other.commit(group, { version: 0, state: 'too late', decision: late }, NEVER)).toBe(false);
      expect(await one.readState(group, NEVER)).toEqual({ version: 1, state: 'state 1' });
      expect(await one.decision(group, 1, NEVER)).toBeUndefined();
    });

    it('lets one of two that write at once win', async () => {
      const group = newGroup();
      const outcomes = await Promise.all(
        [one, other, one, other].map((store, at) =>
          store.commit(
            group,
            { version: 0, state: `of ${at}`, decision: someDecision(0, { reason: `of ${at}` }) },
            NEVER,
          ),
        ),
      );
      expect(outcomes.filter((isDone) => isDone)).toHaveLength(1);
      const winner = outcomes.indexOf(true);
      expect(await one.readState(group, NEVER)).toEqual({ version: 1, state: `of ${winner}` });
      expect((await other.decision(group, 0, NEVER))?.reason).toBe(`of ${winner}`);
    });

    it('takes a commit again whose answer was lost', async () => {
      const group = newGroup();
      const same = { version: 0, state: 's', decision: someDecision(0) };
      expect(await one.commit(group, same, NEVER)).toBe(true);
      expect(await one.commit(group, same, NEVER)).toBe(true);
      expect(await one.readState(group, NEVER)).toEqual({ version: 1, state: 's' });
      expect(await one.decisions(group, { sinceMs: 0 }, NEVER)).toHaveLength(1);
    });

    it('lists decisions and ticks newest first, from a time on, as many as asked for', async () => {
      const group = newGroup();
      for (let at = 0; at < 5; at++) {
        const tick = { atMs: NOW + at, reason: `tick ${at}`, figures: {} };
        await one.commit(group, { version: at, state: `${at}`, decision: someDecision(at), tick }, NEVER);
      }
      const ids = async (range: { sinceMs: number; countMax?: number }) =>
        (await other.decisions(group, range, NEVER)).map(({ decisionId }) => decisionId);
      expect(await ids({ sinceMs: 0 })).toEqual([4, 3, 2, 1, 0]);
      expect(await ids({ sinceMs: NOW + 2000 })).toEqual([4, 3, 2]);
      expect(await ids({ sinceMs: 0, countMax: 2 })).toEqual([4, 3]);
      const ticks = await other.ticks(group, { sinceMs: NOW + 1, countMax: 3 }, NEVER);
      expect(ticks.map(({ reason }) => reason)).toEqual(['tick 4', 'tick 3', 'tick 2']);
      const late = await other.ticks(group, { sinceMs: NOW + 3.5 }, NEVER);
      expect(late.map(({ reason }) => reason)).toEqual(['tick 4']);
    });

    it('moves a decision on as its states allow, and for one of two at once', async () => {
      const group = newGroup();
      await commit(group, 0, someDecision(0));
      const seen = someDecision(0);
      const moves = await Promise.all(
        [one, other].map((store, at) => store.move(group, seen, { status: 'APPLYING', appliedAtMs: NOW + at }, NEVER)),
      );
      const [taken, ...rest] = moves.filter((move) => move !== undefined);
      expect(rest).toEqual([]);
      expect(taken).toMatchObject({ ...seen, status: 'APPLYING' });
      // it has changed since it was read
      expect(await one.move(group, seen, { status: 'SUPERSEDED' }, NEVER)).toBeUndefined();
      const applied = await other.move(group, taken!, { status: 'APPLIED', appliedAtMs: NOW + 5 }, NEVER);
      expect(applied).toMatchObject({ status: 'APPLIED', appliedAtMs: NOW + 5, reason: seen.reason });
      expect(await one.move(group, applied!, { status: 'PENDING' }, NEVER)).toBeUndefined();
      expect(await one.decision(group, 0, NEVER)).toEqual(applied);
    });

    it('changes a decision that stays in its status only for one who has seen it as it is', async () => {
      const group = newGroup();
      await commit(group, 0, someDecision(0));
      const first = await one.move(group, someDecision(0), { status: 'APPLYING', appliedAtMs: NOW }, NEVER);
      const victims = [{ instanceId: 'i-1', pool: 'decode', option: '0-on-demand', atMs: NOW }] as const;
      const chosen = await other.move(group, first!, { status: 'APPLYING', victims, fleet: '2 serve' }, NEVER);
      expect(chosen).toMatchObject({ appliedAtMs: NOW, victims, fleet: '2 serve' });
      expect(await one.move(group, first!, { status: 'APPLYING', victims: [] }, NEVER)).toBeUndefined();
      expect(await one.decision(group, 0, NEVER)).toEqual(chosen);
    });

    it('tells why capacity is missing for as long as it is, and lets the decision begin anew after that', async () => {
      const group = newGroup();
      await commit(group, 0, someDecision(0));
      const begun = await one.move(group, someDecision(0), { status: 'APPLYING', appliedAtMs: NOW }, NEVER);
      const why = { code: 'InsufficientInstanceCapacity', option: '1-spot', problem: 'no option has room' };
      const stalled = await one.move(group, begun!, { status: 'STALLED', ...why }, NEVER);
      expect(await other.decision(group, 0, NEVER)).toMatchObject({ status: 'STALLED', ...why });
      const again = await other.move(group, stalled!, { status: 'PENDING' }, NEVER);
      expect(await one.decision(group, 0, NEVER)).toEqual(again);
      for (const key of ['code', 'option', 'problem', 'appliedAtMs']) expect(again).not.toHaveProperty(key);
    });

    it.each([
      ['TIMED_OUT', 'PENDING'],
      ['APPLIED', 'APPLYING'],
    ] as const)('lets a decision go from %s to %s', async (from, to) => {
      const group = newGroup();
      await commit(group, 0, someDecision(0));
      const begun = await one.move(group, someDecision(0), { status: 'APPLYING' }, NEVER);
      const ended = await one.move(group, begun!, { status: from }, NEVER);
      expect(await other.move(group, ended!, { status: to }, NEVER)).toMatchObject({ status: to });
    });

    it('takes nothing from a lease that is older than the last change', async () => {
      const group = newGroup();
      await commit(group, 0, someDecision(0));
      const begun = await one.move(group, someDecision(0), { status: 'APPLYING', fence: 7 }, NEVER);
      expect(await other.move(group, begun!, { status: 'APPLIED', fence: 6 }, NEVER)).toBeUndefined();
      expect(await other.move(group, begun!, { status: 'APPLIED', fence: 7 }, NEVER)).toMatchObject({ fence: 7 });
    });

    it('gives the lease of a model to one of many that ask at once', async () => {
      const group = newGroup();
      const asked = await Promise.all(
        [one, other, one, other].map((store, at) => store.takeLease(group, `h${at}`, 60_000, NEVER)),
      );
      const taken = asked.filter((lease) => lease !== undefined);
      expect(taken).toHaveLength(1);
      expect(taken[0]).toMatchObject({ holder: `h${asked.indexOf(taken[0])}`, memory: {} });
      expect(await one.takeLease(newGroup(), 'another', 60_000, NEVER)).toBeDefined();
    });

    it('gives a lease again once it is released or over, with a higher fence and what was remembered', async () => {
      const group = newGroup();
      const first = await one.takeLease(group, 'a', 60_000, NEVER);
      const renewed = await one.renewLease(group, first!, { ms: 60_000, memory: { pairs: [1] } }, NEVER);
      expect(renewed).toMatchObject({ fence: first!.fence, memory: { pairs: [1] } });
      expect(await other.takeLease(group, 'b', 60_000, NEVER)).toBeUndefined();
      await one.releaseLease(group, renewed!, NEVER);
      const second = await other.takeLease(group, 'b', OVER_MS, NEVER);
      expect(second).toMatchObject({ holder: 'b', memory: { pairs: [1] } });
      const third = await one.takeLease(group, 'a', 60_000, NEVER);
      const again = await one.takeLease(group, 'a', 60_000, NEVER); // its own, as after a crash
      const fences = [first!, second!, third!, again!].map(({ fence }) => fence);
      expect(fences).toEqual([0, 1, 2, 3].map((more) => first!.fence + more));
    });

    it('leaves a lease alone that was taken again since', async () => {
      const group = newGroup();
      const late = await one.takeLease(group, 'a', OVER_MS, NEVER);
      const now = await other.takeLease(group, 'b', 60_000, NEVER);
      expect(await one.renewLease(group, late!, { ms: 60_000, memory: { late: true } }, NEVER)).toBeUndefined();
      await one.releaseLease(group, late!, NEVER);
      expect(await one.takeLease(group, 'c', 60_000, NEVER)).toBeUndefined();
      expect(await other.renewLease(group, now!, { ms: 1, memory: {} }, NEVER)).toMatchObject({ memory: {} });
    });

    it('acknowledges the newest decision that was carried out, never an older one', async () => {
      const group = newGroup();
      await one.acknowledge(group, 3, NEVER);
      await other.acknowledge(group, 1, NEVER);
      expect(await one.acknowledged(group, NEVER)).toBe(3);
      await other.acknowledge(group, 3, NEVER);
      await other.acknowledge(group, 4, NEVER);
      expect(await one.acknowledged(group, NEVER)).toBe(4);
    });

    const reserved = async (): Promise<number> =>
      Object.values(await one.reservations(NEVER)).reduce((total, each) => total + each, 0);

    it('gives no more GPUs than the budget has, however many ask at once; returned ones are free', async () => {
      const pools = Array.from({ length: 6 }, (_, at) => `${newGroup()}/${at}`);
      const before = await reserved();
      const granted = await Promise.all(
        pools.map((pool, at) => (at % 2 === 0 ? one : other).reserve({ [pool]: 3 }, before + 10, NEVER)),
      );
      expect(granted.filter((isGranted) => isGranted)).toHaveLength(3);
      const all = await other.reservations(NEVER);
      const ours = pools.map((pool) => all[pool] ?? 0);
      expect(ours.reduce((total, each) => total + each, 0)).toBe(9);
      const [rich, poor] = [pools[granted.indexOf(true)]!, pools[granted.indexOf(false)]!];
      expect(await one.reserve({ [rich]: 1 }, before + 1, NEVER)).toBe(true); // less is always granted
      expect(await other.reserve({ [poor]: 3 }, before + 10, NEVER)).toBe(true);
      expect(await other.reserve({ [poor]: 4 }, before + 10, NEVER)).toBe(false);
      for (const pool of pools) await one.reserve({ [pool]: 0 }, 0, NEVER);
    });

    it('reserves the GPUs of all pools of a model together, or none of them', async () => {
      const group = newGroup();
      const [prefill, decode] = [`${group}/prefill`, `${group}/decode`];
      const before = await reserved();
      expect(await one.reserve({ [prefill]: 4, [decode]: 4 }, before + 8, NEVER)).toBe(true);
      expect(await other.reserve({ [prefill]: 2, [decode]: 7 }, before + 8, NEVER)).toBe(false);
      expect(await one.reservations(NEVER)).toMatchObject({ [prefill]: 4, [decode]: 4 });
      expect(await other.reserve({ [prefill]: 2, [decode]: 6 }, before + 8, NEVER)).toBe(true);
      expect(await one.reservations(NEVER)).toMatchObject({ [prefill]: 2, [decode]: 6 });
      expect(await one.reserve({ [prefill]: 0, [decode]: 0 }, 0, NEVER)).toBe(true);
    });

    it('does nothing for who has given up', async () => {
      const group = newGroup();
      const signal = AbortSignal.abort(new Error('gone'));
      await expect(one.commit(group, { version: 0, state: 's' }, signal)).rejects.toThrow('gone');
      await expect(one.readState(group, signal)).rejects.toThrow('gone');
      expect(await one.readState(group, NEVER)).toBeUndefined();
    });
  });
}
