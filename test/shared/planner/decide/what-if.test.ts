import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import { unpackState } from '../../../../shared/planner/decide/model-state.ts';
import { askWhatIf, PlannerConfigError, readPresent, WhatIfRefusal } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { BEGIN_S, tellStory } from '../../../support/planner/fleet-signals.ts';
import { aggregatedAt, workerIdAt } from '../../../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;
const BUSY = { rate: () => 30, workers: () => 1 };

/** Plays signals to a planner, and returns its state as the store has it. */
async function stateAfter(
  signals: readonly SentSignal[],
  config: Readonly<Record<string, unknown>> = {},
  counted?: { readonly ready: number; readonly starting: number },
): Promise<string> {
  const raw = { mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 60, ...config };
  const planner = { config: parsePlannerConfig(raw), engines: {} };
  const store = new MemoryPlannerStore();
  const environment = counted === undefined ? {} : { counted: { decode: counted }, startSeconds: 45 };
  for (let at = 0; at < signals.length; at += 10) {
    await handleSignals(signals.slice(at, at + 10), { store, group: 'g', planner, ...environment }, NEVER);
  }
  return (await store.readState('g', NEVER))?.state ?? '';
}

describe('the law asked with other bounds', () => {
  it('says what it would decide, and why, beside what it decides now', async () => {
    const text = await stateAfter(tellStory(60, BUSY));
    const { present, other, atMs } = askWhatIf(text, { rate_requests_per_second: 5 });
    expect(present.targets).toEqual({ decode: 4 });
    expect(present.pools.decode).toMatchObject({ need: 4, capacity: 10 });
    expect(other.targets).toEqual({ decode: 8 });
    expect(other.decides).toBe(true);
    expect(other.reason).toMatch(/decode \d -> 8: .*a worker serves 5\.0: 8 needed/);
    expect(atMs).toBeGreaterThanOrEqual(1000 * (BEGIN_S + 50));
  });

  it('refuses a rate of all pools if each has its own, which would hold', async () => {
    const text = await stateAfter(tellStory(60, BUSY), { rate_decode_requests_per_second: 10 });
    expect(() => askWhatIf(text, { rate_requests_per_second: 5 })).toThrow(PlannerConfigError);
    expect(() => askWhatIf(text, { rate_requests_per_second: 5 })).toThrow(
      'rate_requests_per_second would change nothing: the configuration of the planner has rate_decode_requests_per_second',
    );
    const disagg = { mode: 'disagg', rate_decode_requests_per_second: 10 };
    const { notes } = askWhatIf(await stateAfter(tellStory(60, BUSY), disagg), { rate_requests_per_second: 5 });
    expect(notes).toEqual(['rate_requests_per_second: the pool decode keeps its rate_decode_requests_per_second.']);
  });

  it('answers for the bounds as they are as the planner itself does', async () => {
    const text = await stateAfter(tellStory(60, BUSY));
    const { present, other } = askWhatIf(text, {});
    expect(present).toEqual(other);
    expect(present.targets).toEqual(unpackState(text).targets);
    expect(present.decides).toBe(false);
  });

  it('names the bound that decides', async () => {
    const text = await stateAfter(tellStory(60, BUSY));
    const { other } = askWhatIf(text, { max_gpu_budget: 2 });
    expect(other.targets).toEqual({ decode: 2 });
    expect(other.pools.decode).toMatchObject({ need: 4, limitedBy: 'budget' });
    expect(other.reason).toContain('within the GPU budget');
  });

  it('tells the next tick from what follows once its windows are over', async () => {
    const story = tellStory(200, { rate: (atS) => (atS < 100 ? 60 : 5), workers: () => 7 });
    const text = await stateAfter(story, { rate_down_window_seconds: 1000 });
    const { present, other } = askWhatIf(text, { rate_step_max: 1 });
    expect(present.targets.decode).toBeGreaterThan(5);
    expect(present.settled).toEqual({ decode: 1 });
    expect(other.settled).toEqual({ decode: 1 });
  });

  it('counts the workers as the environment did at the last tick', async () => {
    const text = await stateAfter(tellStory(60, BUSY), {}, { ready: 2, starting: 5 });
    expect(askWhatIf(text, {}).present.now).toEqual({ decode: 7 });
    expect(unpackState(text).asked).toMatchObject({ startSeconds: 45 });
  });

  it('takes the time of a start from the question, although a start was measured', async () => {
    const story = tellStory(200, { rate: (atS) => 0.2 * atS, workers: () => 3 });
    const text = await stateAfter(story, { rate_step_max: 100 }, { ready: 3, starting: 0 });
    const { present, other } = askWhatIf(text, { start_seconds: 900 });
    expect(other.pools.decode!.demand).toBeGreaterThan(present.pools.decode!.demand);
    expect(other.pools.decode!.need).toBeGreaterThan(present.pools.decode!.need);
  });

  it('says which bounds of the question the law does not read', async () => {
    const text = await stateAfter(tellStory(60, BUSY));
    expect(askWhatIf(text, { ttft_ms: 9, max_gpu_budget: 3 }).notes).toEqual([
      'ttft_ms: the capacity of a worker is stated, and does not follow from the targets.',
    ]);
    const limits = { law: 'load', decode_scale_up_kv_rate: 80, decode_scale_down_kv_rate: 20 };
    const ofLoad = await stateAfter(tellStory(60, BUSY), limits);
    expect(askWhatIf(ofLoad, { rate_step_max: 2, idle_to_zero_seconds: 1 }).notes).toContain(
      'rate_step_max, idle_to_zero_seconds: the law load does not read this.',
    );
  });

  it('asks the loops of Dynamo with the passes of the last tick', async () => {
    const limits = { law: 'load', decode_scale_up_kv_rate: 80, decode_scale_down_kv_rate: 20 };
    const pass = [0.01, 0, 0, 0, 3, 1_000_000, 0, 0, 0, 0] as const;
    const signals = Array.from({ length: 12 }, (_, at): SentSignal => {
      const { signal, sentAtS } = aggregatedAt(5 * at, at, { workers: 1 });
      if (signal.type !== 'model.rollup' || signal.pools.agg === undefined) throw new Error('no roll-up of a model');
      const engines: [string, number, ...number[]][] = [[workerIdAt(0), 0, ...pass]];
      return { signal: { ...signal, pools: { agg: { ...signal.pools.agg, engines } } }, sentAtS };
    });
    const text = await stateAfter(signals, limits);
    const { present, other, notes } = askWhatIf(text, { min_endpoint: 3 });
    expect(notes).toEqual([]);
    expect(present.reason).toContain('between its thresholds');
    expect(other.targets).toEqual({ decode: 3 });
  });

  it('refuses bounds that contradict each other, and changes nothing in any case', async () => {
    const text = await stateAfter(tellStory(60, BUSY));
    const before = unpackState(text);
    expect(() => askWhatIf(text, { min_endpoint: 40 })).toThrow(PlannerConfigError);
    expect(() => askWhatIf(text, { min_gpu_budget: 9, max_gpu_budget: 3 })).toThrow(/min_gpu_budget 9 is above/);
    askWhatIf(text, { ttft_ms: 1 });
    expect(unpackState(text)).toEqual(before);
  });

  it('says why a state cannot be asked about', async () => {
    const { asked: _, ...older } = unpackState(await stateAfter(tellStory(60, BUSY)));
    const text = JSON.stringify({ ...older, sources: {}, folded: {} });
    expect(() => askWhatIf(text, {})).toThrow(WhatIfRefusal);
    expect(() => askWhatIf('next 7', {})).toThrow(/in its own process/);
    expect(() => askWhatIf('{"v":2}', {})).toThrow(WhatIfRefusal);
    expect(() => askWhatIf('{"v":2}', {})).toThrow(/this release cannot read .* version 2/);
    expect(readPresent(text)?.config).toBeUndefined();
    expect(readPresent('next 7')).toBeUndefined();
  });
});
