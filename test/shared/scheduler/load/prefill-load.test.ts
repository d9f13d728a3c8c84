import { describe, expect, it } from 'vitest';
import type { PrefillDurationModel } from '../../../../shared/scheduler/index.ts';
import { Pool, promptTokens, worker } from '../pool.ts';

/** Ten milliseconds a token, and what was asked. */
class Prediction implements PrefillDurationModel {
  readonly asked: [uncached: number, cached: number][] = [];

  durationMs(uncachedTokens: number, cachedTokens: number): number {
    this.asked.push([uncachedTokens, cachedTokens]);
    return 10 * uncachedTokens;
  }
}

const AIC = { prefillLoadModel: 'aic' } as const;

describe('the load model aic', () => {
  it('predicts once, at the decision, what the chosen worker has to compute and what it has cached', () => {
    const prefillDuration = new Prediction();
    const pool = new Pool({ prefillDuration, config: AIC });
    const prompt = promptTokens(100);
    pool.store('b', prompt.subarray(0, 64));
    const { decision } = pool.submit('r1', prompt);
    expect(decision).toMatchObject({ workerId: 'b', uncachedTokens: 36, prefillTokens: 36, prefillMs: 360 });
    pool.scheduler.explain(pool.request('r2', prompt));
    pool.scheduler.loads();
    expect(prefillDuration.asked).toEqual([[36, 64]]);
  });

  it('predicts nothing if nothing is left to compute or prompts do not count as load', () => {
    const prefillDuration = new Prediction();
    const pool = new Pool({ prefillDuration, config: AIC });
    const prompt = promptTokens(64);
    pool.store('a', prompt);
    expect(pool.submit('r1', prompt).decision).toMatchObject({ prefillTokens: 0, prefillMs: undefined });
    const untracked = pool.submit('r2', promptTokens(64, 1), { override: { track_prefill_tokens: false } });
    expect(untracked.decision).toMatchObject({ uncachedTokens: 64, prefillTokens: 0, prefillMs: undefined });
    expect(prefillDuration.asked).toEqual([]);
  });

  it('lets the load that others see shrink with time, and that of the next begin anew', async () => {
    const pool = new Pool({ prefillDuration: new Prediction(), config: AIC, workers: [worker('a')] });
    pool.submit('r1', promptTokens(1000));
    pool.submit('r2', promptTokens(600, 1));
    expect(pool.loadOf('a').activePrefillTokens).toBe(1600);
    await pool.clock.advance(4000);
    expect(pool.loadOf('a').activePrefillTokens).toBe(1200);
    await pool.clock.advance(8000);
    expect(pool.loadOf('a').activePrefillTokens).toBe(400);
    pool.scheduler.prefillDone('r1');
    expect(pool.loadOf('a').activePrefillTokens).toBe(600);
  });

  it('sends the next prompt to the worker that should be through first', async () => {
    const config = { ...AIC, trackActiveBlocks: false };
    const pool = new Pool({ prefillDuration: new Prediction(), config });
    const first = pool.submit('r1', promptTokens(1000)).decision!.workerId;
    await pool.clock.advance(9000);
    const second = pool.submit('r2', promptTokens(200, 1)).decision!.workerId;
    expect(second).not.toBe(first); // it has none
    expect(pool.submit('r3', promptTokens(64, 2)).decision?.workerId).toBe(first); // 100 tokens are left there, 200 here
    const still = new Pool({ config: { trackActiveBlocks: false } });
    const [one, two, three] = [1000, 200, 64].map(
      (count, at) => still.submit(`r${at}`, promptTokens(count, at)).decision!,
    );
    expect([one!.workerId === three!.workerId, two!.workerId === three!.workerId]).toEqual([false, true]);
  });

  it('opens the queue by the passing of time', async () => {
    const config = { ...AIC, queueThreshold: 1 };
    const workers = [worker('a', { maxNumBatchedTokens: 500 })];
    const pool = new Pool({ prefillDuration: new Prediction(), config, workers });
    pool.submit('r1', promptTokens(1000));
    const waiting = pool.submit('r2', promptTokens(64, 1));
    expect(waiting.decision).toBeUndefined();
    expect(pool.scheduler.recheckMs).toBe(100);
    await pool.clock.advance(4900);
    pool.scheduler.tick();
    expect(waiting.decision).toBeUndefined();
    await pool.clock.advance(100);
    pool.scheduler.tick();
    expect(waiting.decision).toMatchObject({ workerId: 'a', waitedMs: 5000 });
  });

  it('counts a prefill in full that the model cannot predict', async () => {
    const prefillDuration = { durationMs: () => undefined };
    const pool = new Pool({ prefillDuration, config: AIC, workers: [worker('a')] });
    expect(pool.submit('r1', promptTokens(1000)).decision?.prefillMs).toBeUndefined();
    await pool.clock.advance(60_000);
    expect(pool.loadOf('a').activePrefillTokens).toBe(1000);
  });
});
