import { describe, expect, it } from 'vitest';
import { type Connector, type DecisionRecord, MemoryPlannerStore } from '../../../../shared/planner/index.ts';
import { actOnNewest } from '../../../../shared/planner/live/act.ts';
import type { Targets } from '../../../../shared/planner/types.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const GROUP = 'g';
const HALF_HOUR_MS = 1_800_000;

/** A fleet that becomes what it is told when it is let. */
class LazyFleet implements Connector {
  readonly name = 'lazy';
  readonly told: Targets[] = [];
  isDone = false;
  isBusy = false;
  onScale: () => Promise<unknown> = async () => {};

  async observe() {
    return {};
  }

  async scale(targets: Targets) {
    if (this.isBusy) return 'waiting' as const;
    this.told.push(targets);
    await this.onScale();
    return 'accepted' as const;
  }

  async isSettled() {
    return this.isDone;
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
    return actOnNewest({ store, connector, group: GROUP, holder, nowMs, gpusMax, engines }, NEVER);
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
    expect(await act()).toMatchObject({ status: 'APPLYING', claim: { holder: 'one' } });
    expect(await store.acknowledged(GROUP, NEVER)).toBe(-1);
    connector.isDone = true;
    expect(await act()).toMatchObject({ status: 'APPLIED' });
    expect(await store.acknowledged(GROUP, NEVER)).toBe(0);
    expect(connector.told).toEqual([{ decode: 3 }, { decode: 3 }]); // absolute numbers
    await act();
    expect(connector.told).toHaveLength(2);
  });

  it('does not take a decision as carried out that the connector has not taken', async () => {
    const { act, connector, decide } = bedOf();
    connector.isBusy = true;
    connector.isDone = true; // an earlier one
    await decide(3);
    expect(await act()).toMatchObject({ status: 'APPLYING' });
    connector.isBusy = false;
    expect(await act()).toMatchObject({ status: 'APPLIED' });
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
    expect(await statuses()).toEqual(['APPLIED', 'SUPERSEDED', 'SUPERSEDED']);
  });

  it('takes up what was decided while it acted, within the same call', async () => {
    const { act, connector, decide, statuses } = bedOf();
    await decide(3);
    connector.isDone = true;
    connector.onScale = async () => {
      if (connector.told.length === 1) await decide(4);
    };
    expect(await act()).toMatchObject({ decisionId: 1, status: 'APPLIED' });
    expect(connector.told).toEqual([{ decode: 3 }, { decode: 4 }]);
    expect(await statuses()).toEqual(['APPLIED', 'APPLIED']);
  });

  it('ends although newer decisions come all the time', async () => {
    const { act, connector, decide } = bedOf();
    await decide(1);
    connector.onScale = () => decide(connector.told.length + 1);
    await act();
    expect(connector.told.length).toBe(8);
  });

  it('leaves a decision to the planner that claimed it until the claim is over, and goes on after a crash', async () => {
    const { act, clock, connector, decide } = bedOf();
    await decide(3);
    await act('one');
    expect(await act('other')).toMatchObject({ claim: { holder: 'one' } });
    await clock.advance(59_999);
    await act('other');
    expect(connector.told).toHaveLength(1);
    await clock.advance(1);
    expect(await act('other')).toMatchObject({ claim: { holder: 'other' } });
    expect(connector.told).toHaveLength(2);
  });

  it('is done by one of two that begin at the same time', async () => {
    const { act, connector, decide } = bedOf();
    await decide(3);
    await Promise.all([act('one'), act('other')]);
    expect(connector.told).toHaveLength(1);
  });

  it('gives up half an hour after it began, not sooner, and takes the next one then', async () => {
    const { act, clock, connector, decide, statuses } = bedOf();
    await decide(3);
    await clock.advance(HALF_HOUR_MS); // nobody was there
    await act();
    await clock.advance(HALF_HOUR_MS - 1);
    expect(await act()).toMatchObject({ status: 'APPLYING' });
    await clock.advance(1);
    expect(await act()).toMatchObject({ status: 'TIMED_OUT', problem: expect.stringContaining('30 minutes') });
    const told = connector.told.length;
    await act();
    expect(connector.told).toHaveLength(told);
    await decide(4);
    await act();
    expect(await statuses()).toEqual(['APPLYING', 'SUPERSEDED']);
  });

  it('only says what is advisory', async () => {
    const { act, connector, decide } = bedOf();
    await decide(3, { status: 'ADVISORY', isAdvisory: true });
    expect(await act()).toMatchObject({ status: 'ADVISORY' });
    expect(connector.told).toEqual([]);
  });

  it('refuses what the GPUs of all models have no room for', async () => {
    const { act, connector, decide, store } = bedOf();
    await store.reserve('another/decode', 3, 8, NEVER);
    await decide(3); // 6 GPUs
    expect(await act('one', 8)).toMatchObject({
      status: 'REJECTED_BUDGET',
      problem: 'the GPU budget of all models has no room for it',
    });
    expect(connector.told).toEqual([]);
    await decide(2);
    expect(await act('one', 8)).toMatchObject({ status: 'APPLYING' });
    expect(await store.reservations(NEVER)).toEqual({ 'another/decode': 3, 'g/decode': 4 });
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
    expect(await act()).toMatchObject({ status: 'APPLIED' });
  });
});
