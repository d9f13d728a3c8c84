import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Scheduler, type SchedulerOptions, Sequence } from '../../../../shared/engines/index.ts';
import type { EngineType } from '../../../../shared/engines/mocker/capacity-rules.ts';
import { TokenNames } from '../../../../shared/engines/mocker/sequence.ts';
import { createBlockHasher } from '../../../../shared/tokens/index.ts';
import { range } from './support.ts';

const BLOCK = 4;

/** A sequence that ends after `outputLength` tokens. */
class Answer extends Sequence {
  readonly #text: TokenNames;

  constructor(prompt: readonly number[], outputLength: number) {
    const hasher = createBlockHasher({ blockSizeTokens: BLOCK });
    const text = new TokenNames(Uint32Array.from(prompt), 1, BLOCK, hasher);
    super(prompt.length, text, prompt.length + outputLength);
    this.#text = text;
  }

  override emit(): boolean {
    this.#text.push(this.length);
    this.length++;
    return this.length === this.lengthMax;
  }
}

function schedulerOf(engineType: EngineType, more: Partial<SchedulerOptions> = {}): Scheduler {
  return new Scheduler({
    numGpuBlocks: 20,
    blockSizeTokens: BLOCK,
    maxNumSeqs: 256,
    maxNumBatchedTokens: 8192,
    enablePrefixCaching: true,
    enableChunkedPrefill: true,
    preemptionMode: 'lifo',
    speedupRatio: 1,
    decodeSpeedupRatio: 1,
    engineType,
    ...more,
  });
}

/** Prompts of 8 tokens whose answers of 40 do not all fit. */
function crowd(scheduler: Scheduler, count = 6): readonly Answer[] {
  const answers = Array.from({ length: count }, (_, at) => new Answer(range(8, 100 * (at + 1)), 40));
  for (const answer of answers) scheduler.submit(answer);
  return answers;
}

function pass(scheduler: Scheduler): void {
  scheduler.startPass();
  scheduler.finishPass();
}

function preemptionsOf(answers: readonly Answer[]): number {
  return answers.reduce((sum, { preemptions }) => sum + preemptions, 0);
}

describe('admission and preemption', () => {
  it('vllm lets everybody in who fits now, and sends the last one back when answers have grown', () => {
    const scheduler = schedulerOf('vllm');
    const answers = crowd(scheduler);
    pass(scheduler);
    expect(scheduler.runningCount).toBe(6);
    while (!scheduler.isIdle) pass(scheduler);
    expect(preemptionsOf(answers)).toBeGreaterThan(0);
    expect(answers[0]?.preemptions).toBe(0);
  });

  it('trtllm admits requests whose longest answers fit together, and preempts none', () => {
    const scheduler = schedulerOf('trtllm');
    const answers = crowd(scheduler);
    pass(scheduler);
    expect(scheduler.runningCount).toBe(1); // 12 blocks each
    while (!scheduler.isIdle) pass(scheduler);
    expect(preemptionsOf(answers)).toBe(0);
  });

  it('sglang counts a share of the answers, and retracts the shortest one to the end of the queue', () => {
    const scheduler = schedulerOf('sglang', { numGpuBlocks: 34 });
    const answers = crowd(scheduler, 8);
    pass(scheduler);
    const admitted = scheduler.runningCount;
    expect(admitted).toBeGreaterThan(1);
    expect(admitted).toBeLessThan(8);
    const shortest = (): number =>
      Math.min(...answers.map(({ generated, state }) => (state === 'running' ? generated : 99)));
    while (preemptionsOf(answers) === 0) {
      const known = shortest();
      pass(scheduler);
      for (const { preemptions, generated } of answers)
        if (preemptions > 0) expect(generated).toBeLessThanOrEqual(known);
    }
    while (!scheduler.isIdle) pass(scheduler);
    for (const answer of answers) expect(answer.generated).toBe(40);
  });

  it('keeps the watermark free of newcomers, but never of one alone', () => {
    const scheduler = schedulerOf('vllm', { watermark: 0.5 });
    crowd(scheduler, 6);
    pass(scheduler);
    expect(scheduler.runningCount).toBe(5); // 2 blocks each, 10 stay free
    const alone = schedulerOf('vllm', { watermark: 1 });
    crowd(alone, 2);
    pass(alone);
    expect(alone.runningCount).toBe(1);
  });

  it.each(['vllm', 'sglang', 'trtllm'] as const)('%s answers everybody and gives every block back', (engineType) => {
    const requests = fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 40 }), fc.nat(3)), {
      minLength: 1,
      maxLength: 30,
    });
    fc.assert(
      fc.property(requests, fc.constantFrom(0, 0.1), (asked, watermark) => {
        const scheduler = schedulerOf(engineType, { watermark, maxNumBatchedTokens: 24 });
        const answers = asked.map(([prompt, output, group]) => new Answer(range(prompt, 1000 * group), output));
        for (const answer of answers) scheduler.submit(answer);
        for (let passes = 0; !scheduler.isIdle; passes++) {
          expect(passes).toBeLessThan(5000);
          pass(scheduler);
        }
        for (const answer of answers) expect(answer.length).toBe(answer.lengthMax);
        if (engineType === 'trtllm') expect(preemptionsOf(answers)).toBe(0);
        expect(scheduler.pool.active).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});
