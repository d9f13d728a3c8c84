import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import type { SentSignal } from '../../../shared/planner/decide/apply-signal.ts';
import { handleSignals } from '../../../shared/planner/decide/handle-batch.ts';
import { type PlannerInput, startPlanner, tick } from '../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../shared/planner/store/memory-store.ts';
import { changeAt, heldAt, tellStory, tickAt } from '../../support/planner/fleet-signals.ts';

const NEVER = new AbortController().signal;
const SENTENCE = /^(?:no change|(?:(?:prefill|decode) \d+ -> \d+(?:, )?)+): \S.*\S$/;
const BROKEN = /undefined|NaN|Infinity|null|\[object| {2}|: *$|;$/;

interface Story {
  readonly signals: readonly SentSignal[];
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Every sentence that a planner gives while it is told a story. */
async function sentencesOf({ signals, config = {} }: Story): Promise<readonly string[]> {
  const raw = { mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 10, ...config };
  const planner = { config: parsePlannerConfig(raw), engines: { prefill: { gpus: 1 }, decode: { gpus: 1 } } };
  const store = new MemoryPlannerStore();
  const said: string[] = [];
  for (const signal of signals) {
    const { tick } = await handleSignals([signal], { store, group: 'g', planner }, NEVER);
    if (tick !== undefined) said.push(tick.effect.reason);
  }
  return said;
}

const steady = (rate: number, workers: number, seconds = 60) =>
  tellStory(seconds, { rate: () => rate, workers: () => workers });

describe('why a planner decides as it does', () => {
  const stories: readonly (readonly [kind: string, story: Story, pattern: RegExp])[] = [
    ['more is needed', { signals: steady(30, 1) }, /^decode 1 -> 4: .*requests\/s.*a worker serves 10: 4 needed$/],
    [
      'less is needed',
      {
        signals: tellStory(200, { rate: (at) => (at < 30 ? 30 : 1), workers: () => 4 }),
        config: { rate_down_window_seconds: 30 },
      },
      /^decode 4 -> [123]: /,
    ],
    [
      'the loops have nothing to say, but the minimum holds',
      { signals: steady(5, 1), config: { law: 'latency', min_endpoint: 3 } },
      /^decode 1 -> 3: .*; fewer than the minimum serve$/,
    ],
    ['nothing changes', { signals: steady(5, 1) }, /^no change: .*1 needed$/],
    [
      'the past is kept',
      { signals: tellStory(60, { rate: (at) => (at < 30 ? 30 : 1), workers: () => 4 }) },
      /what was needed a short while ago is kept$/,
    ],
    [
      'the budget is reached',
      { signals: steady(60, 1), config: { max_gpu_budget: 3 } },
      /^decode 1 -> 3: .*within the GPU budget$/,
    ],
    [
      'a step is the largest',
      { signals: steady(200, 1), config: { rate_step_max: 2 } },
      /^decode 1 -> 3: .*as far as one step goes$/,
    ],
    [
      'a request waits',
      { signals: [tickAt(0, 0), heldAt(1, 0, 3)], config: { min_endpoint: 0 } },
      /^decode 0 -> 1: .*and 3 wait/,
    ],
    [
      'no signal counts requests',
      { signals: [...steady(30, 2, 20), ...Array.from({ length: 8 }, (_, at) => tickAt(30 + 15 * at, at))] },
      /^no change: nothing that counts requests was heard/,
    ],
    ['a worker is lost', { signals: [...steady(30, 4), changeAt('worker.gone', 61, 2, 99)] }, /^decode 3 -> 4: /],
    ['thresholds', { signals: steady(30, 2), config: { law: 'throughput' } }, /^no change: \w/],
  ];

  it.each(stories)('is said in one sentence: %s', async (_, story, pattern) => {
    const said = await sentencesOf(story);
    expect(said.filter((sentence) => pattern.test(sentence)).length, said.join('\n')).toBeGreaterThan(0);
    for (const sentence of said) {
      expect(sentence).toMatch(SENTENCE);
      expect(sentence).not.toMatch(BROKEN);
    }
  });

  it('names numbers, whatever a planner hears', () => {
    const odd = fc.oneof(fc.double(), fc.constantFrom(undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e15));
    const counts = fc.record({ ready: fc.nat(20), starting: fc.nat(5) });
    const shown = fc.record({
      started: odd,
      held: odd,
      running: odd,
      isl: odd,
      osl: odd,
      kvHitRate: odd,
      prefill: counts,
      decode: counts,
    });
    const law = fc.constantFrom('rate', 'throughput', 'latency', 'sla');
    const mode = fc.constantFrom('agg', 'disagg', 'prefill', 'decode');
    fc.assert(
      fc.property(
        law,
        mode,
        fc.boolean(),
        fc.array(shown, { minLength: 1, maxLength: 8 }),
        (by, of, isKnown, ticks) => {
          const rate = isKnown ? { rate_requests_per_second: 10 } : {};
          const planner = { config: parsePlannerConfig({ law: by, mode: of, ...rate }), engines: {} };
          let state = startPlanner(0);
          for (const [at, { prefill, decode, ...told }] of ticks.entries()) {
            const input = { ...told, nowS: 5 * (at + 1), counts: { prefill, decode }, passes: {} } as PlannerInput;
            const ticked = tick(state, input, planner);
            state = ticked.state;
            expect(ticked.effect.reason).toMatch(SENTENCE);
            expect(ticked.effect.reason).not.toMatch(BROKEN);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
