import { describe, expect, it } from 'vitest';
import type { Connector, DecisionRecord } from '../../../../shared/planner/index.ts';
import { actOnNewest } from '../../../../shared/planner/live/act.ts';
import type { Applied, Observed, Plan, Step } from '../../../../shared/planner/live/connector.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import type { Targets } from '../../../../shared/planner/types.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const GROUP = 'g';
const HALF_HOUR_MS = 1_800_000;

/** A fleet that becomes what it is told when it is let. */
class LazyFleet implements Connector {
  readonly name = 'lazy';
  readonly told: Targets[] = [];
  desired: Targets = {};
  isDone = false;
  isBusy = false;
  shortage: Plan['shortage'];
  startSeconds: number | undefined;
  onScale: () => Promise<unknown> = async () => {};
  /** Answer of the environment, if it refuses. */
  refusal: string | undefined;

  async observe(): Promise<Observed> {
    const { isDone, startSeconds, desired: targets } = this;
    return { handed: { targets, isCarriedOut: isDone }, startSeconds };
  }

  plan: Connector['plan'] = ({ targets }, { handed }, memory) => {
    const isChanged = targets.decode !== handed?.targets.decode;
    const steps: Step[] = isChanged ? [{ kind: 'targets', targets }] : [];
    const isDone = !isChanged && handed?.isCarriedOut === true;
    return { steps, victims: [], isDone, shortage: this.shortage, memory };
  };

  async apply(steps: readonly Step[]): Promise<Applied> {
    for (const step of steps) {
      if (this.isBusy) return 'waiting';
      if (this.refusal !== undefined) return { failed: this.refusal };
      if (step.kind !== 'targets') continue;
      this.told.push(step.targets);
      await this.onScale();
      this.desired = step.targets;
    }
    return 'accepted';
  }

  async close() {}
}

function bedOf() {
  const clock = new VirtualClock();
  const store = new MemoryPlannerStore({ wallMs: () => clock.wallMs() });
  const connector = new LazyFleet();
  let version = 0;
  const decide = async (decode: number, parts: Partial<DecisionRecord> = {}): Promise<void> => {
    const decisionId = version;
    const decision: DecisionRecord = {
      decisionId,
      status: 'PENDING',
      targets: { decode },
      previous: {},
      reason: '',
      isAdvisory: false,
      configHash: '',
      decidedAtMs: clock.wallMs(),
      figures: {},
      ...parts,
    };
    expect(await store.commit(GROUP, { version: version++, state: '', decision }, NEVER)).toBe(true);
  };
  const act = (holder = 'one', gpusMax?: number) => {
    const engines = { decode: { gpus: 2 } };
    const nowMs = (): number => clock.wallMs();
    const common = { store, connector, group: GROUP, holder, nowMs, gpusMax, engines };
    return actOnNewest({ ...common, tickSeconds: 5, startSeconds: 180 }, NEVER);
  };
  const statuses = async () => (await store.decisions(GROUP, { sinceMs: 0 }, NEVER)).map(({ status }) => status);
  return { clock, store, connector, decide, act, statuses };
}

describe('acting on decisions', () => {
  it('does nothing where nothing was decided', async () => {
    const { act, connector } = bedOf();
    expect(await act()).toBeUndefined();
    expect(connector.told).toEqual([]);
  });

  it('goes on until the fleet has become what was decided, and acknowledges that', async () => {
    const { act, connector, decide, store } = bedOf();
    await decide(3);
    expect(await act()).toMatchObject({ status: 'APPLYING', fleet: 'the last targets are not carried out' });
    expect(await store.acknowledged(GROUP, NEVER)).toBe(-1);
    connector.isDone = true;
    expect(await act()).toMatchObject({ status: 'APPLIED' });
    expect(await store.acknowledged(GROUP, NEVER)).toBe(0);
    await act();
    expect(connector.told).toEqual([{ decode: 3 }]);
  });

  it('does not take a decision as carried out that the connector has not taken', async () => {
    const { act, connector, decide } = bedOf();
    connector.isBusy = true;
    connector.isDone = true; // an earlier one
    await decide(3);
    expect(await act()).toMatchObject({ status: 'APPLYING' });
    connector.isBusy = false;
    await act();
    expect(await act()).toMatchObject({ status: 'APPLIED' });
  });

  it('applies a decision again that was carried out, as soon as the fleet is something else', async () => {
    const { act, connector, decide } = bedOf();
    await decide(3);
    connector.isDone = true;
    await act();
    expect(await act()).toMatchObject({ status: 'APPLIED' });
    connector.desired = { decode: 20 }; // by hand
    expect(await act()).toMatchObject({ status: 'APPLYING', reapplied: 1 });
    expect(connector.desired).toEqual({ decode: 3 });
    expect(await act()).toMatchObject({ status: 'APPLIED', reapplied: 1 });
  });

  it('acts on the newest alone, and leaves the others behind', async () => {
    const { act, connector, decide, statuses } = bedOf();
    await decide(3);
    await act();
    await decide(4);
    await decide(5);
    connector.isDone = true;
    await act();
    expect(connector.told).toEqual([{ decode: 3 }, { decode: 5 }]);
    await act();
    expect(await statuses()).toEqual(['APPLIED', 'SUPERSEDED', 'SUPERSEDED']);
  });

  it('takes up what was decided while it acted, within the same call', async () => {
    const { act, connector, decide, statuses } = bedOf();
    await decide(3);
    connector.isDone = true;
    connector.onScale = async () => {
      if (connector.told.length === 1) await decide(4);
    };
    expect(await act()).toMatchObject({ decisionId: 1, status: 'APPLYING' });
    expect(connector.told).toEqual([{ decode: 3 }, { decode: 4 }]);
    await act();
    expect(await statuses()).toEqual(['APPLIED', 'SUPERSEDED']);
  });

  it('ends although newer decisions come all the time', async () => {
    const { act, connector, decide } = bedOf();
    await decide(1);
    connector.onScale = () => decide(connector.told.length + 1);
    await act();
    expect(connector.told.length).toBe(8);
  });

  it('leaves the model to the planner that acts on it until its lease is over, and goes on after a crash', async () => {
    const { act, clock, connector, decide } = bedOf();
    await decide(3);
    connector.onScale = async () => {
      throw new Error('crash');
    };
    await expect(act('one')).rejects.toThrow('crash');
    connector.onScale = async () => {};
    expect(await act('other')).toMatchObject({ status: 'APPLYING' });
    await clock.advance(59_999);
    await act('other');
    expect(connector.told).toHaveLength(1);
    await clock.advance(1);
    await act('other');
    expect(connector.told).toHaveLength(2);
    await decide(4);
    await act('one'); // nobody holds it between two rounds
    expect(connector.desired).toEqual({ decode: 4 });
  });

  it('is done by one of two that begin at the same time', async () => {
    const { act, connector, decide } = bedOf();
    await decide(3);
    await Promise.all([act('one'), act('other')]);
    expect(connector.told).toHaveLength(1);
  });

  it('comes to the newest decision although a call of an earlier one lands after it', async () => {
    const { act, clock, connector, decide } = bedOf();
    await decide(5);
    let land = (): void => {};
    connector.onScale = () => new Promise<void>((resolve) => (land = resolve));
    const hanging = act('one'); // in SetDesiredCapacity(5)
    await clock.advance(60_000); // its lease is over
    connector.onScale = async () => {};
    connector.isDone = true;
    await decide(3);
    await act('other');
    expect(await act('other')).toMatchObject({ decisionId: 1, status: 'APPLIED' });
    land();
    await hanging;
    expect(connector.desired).toEqual({ decode: 5 }); // no fence can stop that
    await act('other');
    expect(connector.desired).toEqual({ decode: 3 });
    expect(await act('other')).toMatchObject({ decisionId: 1, status: 'APPLIED', reapplied: 1 });
  });

  it.each([
    [undefined, 10],
    [180, 10],
    [480, 16],
  ])('says that it is late after twice a start of %s s, at least ten minutes', async (startSeconds, minutes) => {
    const { act, clock, connector, decide, statuses } = bedOf();
    connector.startSeconds = startSeconds;
    await decide(3);
    await clock.advance(HALF_HOUR_MS); // nobody was there
    await act();
    await clock.advance(minutes * 60_000 - 1);
    expect(await act()).toMatchObject({ status: 'APPLYING' });
    await clock.advance(1);
    const problem = `the fleet did not match the decision within ${minutes} minutes`;
    expect(await act()).toMatchObject({ status: 'TIMED_OUT', problem });
    await act();
    expect(connector.told).toHaveLength(1);
    await decide(4);
    await act();
    expect(await statuses()).toEqual(['APPLYING', 'SUPERSEDED']);
  });

  it('carries on with a late decision once the fleet changes', async () => {
    const { act, clock, connector, decide } = bedOf();
    await decide(3);
    await act();
    await clock.advance(HALF_HOUR_MS);
    expect(await act()).toMatchObject({ status: 'TIMED_OUT' });
    expect(await act()).toMatchObject({ status: 'TIMED_OUT' });
    connector.isDone = true;
    const ended = await act();
    expect(ended).toMatchObject({ status: 'APPLIED', appliedAtMs: clock.wallMs() });
    expect(ended).not.toHaveProperty('problem');
  });

  it('tells why capacity is missing, and carries on once an option may be tried', async () => {
    const { act, clock, connector, decide } = bedOf();
    const shortage = { code: 'InsufficientInstanceCapacity', option: '1-spot', problem: 'no option has room' };
    await decide(3);
    connector.shortage = shortage;
    expect(await act()).toMatchObject({ status: 'STALLED', ...shortage });
    await clock.advance(HALF_HOUR_MS);
    const stalled = await act();
    expect(stalled).toMatchObject({ status: 'STALLED', ...shortage });
    expect(await act()).toEqual(stalled);
    connector.shortage = undefined;
    const again = await act();
    expect(again).toMatchObject({ status: 'APPLYING', appliedAtMs: clock.wallMs() });
    expect(again).not.toHaveProperty('code');
    connector.isDone = true;
    expect(await act()).toMatchObject({ status: 'APPLIED' });
  });

  it('tells that the environment refuses, tries again, and is late in the end', async () => {
    const { act, clock, connector, decide } = bedOf();
    connector.refusal = 'AccessDenied';
    await decide(3);
    const refused = { status: 'APPLYING', code: 'AccessDenied', problem: expect.stringContaining('AccessDenied') };
    expect(await act()).toMatchObject(refused);
    await clock.advance(HALF_HOUR_MS);
    expect(await act()).toMatchObject({ ...refused, status: 'TIMED_OUT' });
    connector.refusal = undefined;
    await act();
    expect(connector.desired).toEqual({ decode: 3 });
  });

  it('tells why the environment refuses while capacity is missing, and goes on once it does not', async () => {
    const { act, clock, connector, decide } = bedOf();
    const shortage = { code: 'MaximumReached', problem: 'every option is full' };
    await decide(3);
    connector.shortage = shortage;
    expect(await act()).toMatchObject({ status: 'STALLED', ...shortage });
    await clock.advance(HALF_HOUR_MS);
    connector.refusal = 'AccessDenied';
    connector.desired = {};
    const refused = await act();
    expect(refused).toMatchObject({ status: 'STALLED', code: 'AccessDenied' });
    expect(await act()).toEqual(refused);
    connector.refusal = undefined;
    expect(await act()).toMatchObject({ status: 'STALLED', ...shortage });
  });

  it('only says what is advisory', async () => {
    const { act, connector, decide, statuses } = bedOf();
    await decide(2);
    await decide(3, { status: 'ADVISORY', isAdvisory: true });
    expect(await act()).toMatchObject({ status: 'ADVISORY' });
    expect(connector.told).toEqual([]);
    expect(await statuses()).toEqual(['ADVISORY', 'SUPERSEDED']);
  });

  it('refuses what the GPUs of all models have no room for, until there is room', async () => {
    const { act, connector, decide, store } = bedOf();
    await store.reserve({ 'another/decode': 3 }, 8, NEVER);
    await decide(3); // 6 GPUs
    const refused = { status: 'REJECTED_BUDGET', problem: 'the GPU budget that all models share has no room for it' };
    expect(await act('one', 8)).toMatchObject(refused);
    expect(await act('one', 8)).toMatchObject(refused);
    expect(connector.told).toEqual([]);
    await store.reserve({ 'another/decode': 2 }, 8, NEVER);
    expect(await act('one', 8)).toMatchObject({ status: 'APPLYING' });
    expect(await store.reservations(NEVER)).toEqual({ 'another/decode': 2, 'g/decode': 6 });
  });

  it('ends with what the connector failed of, and goes on with the next call', async () => {
    const { act, connector, decide } = bedOf();
    await decide(3);
    connector.onScale = async () => {
      throw new Error('no such group');
    };
    await expect(act()).rejects.toThrow('no such group');
    connector.onScale = async () => {};
    connector.isDone = true;
    await act();
    expect(await act()).toMatchObject({ status: 'APPLIED' });
  });
});
