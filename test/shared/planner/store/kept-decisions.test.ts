import { describe, expect, it } from 'vitest';
import type { DecisionRecord } from '../../../../shared/planner/index.ts';
import { KeptDecisions } from '../../../../shared/planner/store/kept-decisions.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { captureLogger, silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { sampleOf } from '../../../support/planner/fleet-story.ts';

const NEVER = new AbortController().signal;
const NOW = Date.now();

function decisionOf(decisionId: number, decode = decisionId + 1): DecisionRecord {
  return {
    decisionId,
    status: 'PENDING',
    targets: { decode },
    previous: {},
    reason: `workers to ${decode}`,
    isAdvisory: false,
    configHash: 'abc',
    decidedAtMs: NOW,
    figures: {},
  };
}

const all = { sinceMs: 0 };

describe('decisions that are kept beside a run', () => {
  it('are there after the run, as they ended, and the next run begins with nothing', async () => {
    const kept = new MemoryPlannerStore();
    const run = new KeptDecisions(kept, silentLogger);
    const decision = decisionOf(0);
    await run.commit('g', { version: 0, state: 'state', decision }, NEVER);
    const applying = await run.move('g', decision, { status: 'APPLYING', appliedAtMs: NOW }, NEVER);
    await run.move('g', applying!, { status: 'APPLIED' }, NEVER);
    await run.close();
    expect(await kept.decisions('g', all, NEVER)).toMatchObject([{ ...decision, status: 'APPLIED', appliedAtMs: NOW }]);
    const next = new KeptDecisions(kept, silentLogger);
    expect(await next.readState('g', NEVER)).toBeUndefined();
    expect(await next.decisions('g', all, NEVER)).toEqual([]);
  });

  it('of several runs are numbered together, and each run moves its own', async () => {
    const kept = new MemoryPlannerStore();
    const [one, other] = [new KeptDecisions(kept, silentLogger), new KeptDecisions(kept, silentLogger)];
    await one.commit('g', { version: 0, state: '', decision: decisionOf(0, 5) }, NEVER);
    await other.commit('g', { version: 0, state: '', decision: decisionOf(0, 7) }, NEVER);
    await other.move('g', decisionOf(0, 7), { status: 'SUPERSEDED' }, NEVER);
    const told = await kept.decisions('g', all, NEVER);
    expect(told.map(({ decisionId, targets, status }) => [decisionId, targets.decode, status])).toEqual([
      [1, 7, 'SUPERSEDED'],
      [0, 5, 'PENDING'],
    ]);
    expect((await one.decision('g', 0, NEVER))?.targets.decode).toBe(5);
    expect((await other.decision('g', 0, NEVER))?.targets.decode).toBe(7);
  });

  it('have the samples of their runs beside them, which take no number', async () => {
    const kept = new MemoryPlannerStore();
    const run = new KeptDecisions(kept, silentLogger);
    const tick = (at: number) => ({ atMs: NOW + at, reason: `tick ${at}`, figures: {}, sample: sampleOf() });
    await run.commit('g', { version: 0, state: '', tick: tick(0) }, NEVER);
    await run.commit('g', { version: 1, state: '', decision: decisionOf(0), tick: tick(1) }, NEVER);
    await run.commit('g', { version: 2, state: '', tick: tick(2) }, NEVER);
    await run.commit('g', { version: 3, state: '', decision: decisionOf(1) }, NEVER);
    expect((await kept.decisions('g', all, NEVER)).map(({ decisionId }) => decisionId)).toEqual([1, 0]);
    expect(await kept.ticks('g', all, NEVER)).toEqual([tick(2), tick(1), tick(0)]);
  });

  it('are not kept where the run itself lost against another', async () => {
    const kept = new MemoryPlannerStore();
    const run = new KeptDecisions(kept, silentLogger);
    expect(await run.commit('g', { version: 3, state: '', decision: decisionOf(0) }, NEVER)).toBe(false);
    await run.commit('g', { version: 0, state: '' }, NEVER); // a tick without a decision
    expect(await kept.groups(NEVER)).toEqual([]);
    expect(await kept.readState('g', NEVER)).toBeUndefined();
  });

  it('that cannot be kept are reported, and the run goes on', async () => {
    class Broken extends MemoryPlannerStore {
      override async commit(): Promise<boolean> {
        throw new Error('the disk is full');
      }
    }
    const { logger, lines } = captureLogger();
    const run = new KeptDecisions(new Broken(), logger);
    const decision = decisionOf(0);
    expect(await run.commit('g', { version: 0, state: '', decision }, NEVER)).toBe(true);
    expect(await run.move('g', decision, { status: 'APPLYING' }, NEVER)).toMatchObject({ status: 'APPLYING' });
    expect(lines).toMatchObject([{ level: 'warn', fields: { reason: 'the disk is full' } }]);
  });

  it('give up where others write all the time', async () => {
    class Busy extends MemoryPlannerStore {
      tries = 0;
      override async commit(): Promise<boolean> {
        this.tries++;
        return false;
      }
    }
    const { logger, lines } = captureLogger();
    const kept = new Busy();
    const run = new KeptDecisions(kept, logger);
    expect(await run.commit('g', { version: 0, state: '', decision: decisionOf(0) }, NEVER)).toBe(true);
    expect(kept.tries).toBe(8);
    expect(lines).toMatchObject([{ fields: { reason: 'other planners write all the time' } }]);
  });
});
