import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Scheduler, type SchedulerOptions, Sequence } from '../../../../shared/engines/index.ts';
import type { BlockListener } from '../../../../shared/engines/mocker/block-pool.ts';
import { TokenNames } from '../../../../shared/engines/mocker/sequence.ts';
import { createBlockHasher } from '../../../../shared/tokens/index.ts';
import { NaiveScheduler, naiveRequest } from './naive-scheduler.ts';
import { range } from './support.ts';

const OPTIONS: SchedulerOptions = {
  numGpuBlocks: 100,
  blockSizeTokens: 4,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  enablePrefixCaching: true,
  enableChunkedPrefill: true,
  preemptionMode: 'lifo',
  speedupRatio: 1,
  decodeSpeedupRatio: 1,
};

/** A sequence of `outputLength` tokens whose next token is a function of its length alone. */
class CountedSequence extends Sequence {
  readonly id: number;
  readonly text: TokenNames;
  readonly #outputLength: number;
  readonly #emitted: number[];

  constructor(id: number, prompt: readonly number[], outputLength: number, emitted: number[], blockSizeTokens: number) {
    const text = new TokenNames(Uint32Array.from(prompt), 1, blockSizeTokens, createBlockHasher({ blockSizeTokens }));
    super(prompt.length, text);
    this.id = id;
    this.text = text;
    this.#outputLength = outputLength;
    this.#emitted = emitted;
  }

  override emit(): boolean {
    this.text.push(nextToken(this.length));
    this.length++;
    this.#emitted.push(this.id);
    return this.generated >= this.#outputLength;
  }
}

function nextToken(length: number): number {
  return length % 3;
}

function bed(options: Partial<SchedulerOptions> = {}, listener?: BlockListener) {
  const settings = { ...OPTIONS, ...options };
  const scheduler = new Scheduler(settings, listener);
  const emitted: number[] = [];
  let ids = 0;
  return {
    scheduler,
    submit(prompt: readonly number[], outputLength: number): CountedSequence {
      const sequence = new CountedSequence(ids++, prompt, outputLength, emitted, settings.blockSizeTokens);
      scheduler.submit(sequence);
      return sequence;
    },
    /** Runs one pass; returns its duration and who got a token. */
    pass(): { ms: number; emitted: number[] } {
      const ms = scheduler.startPass();
      scheduler.finishPass();
      return { ms, emitted: emitted.splice(0) };
    },
  };
}

describe('scheduler', () => {
  it('gives the first token in the pass that ends the prefill, without a decode step', () => {
    const { submit, pass } = bed({ numGpuBlocks: 16_384, blockSizeTokens: 64 });
    submit(range(1000), 3);
    const first = pass();
    expect(first.ms).toBeCloseTo(32.1059, 4);
    expect(first.emitted).toEqual([0]);
    expect(pass().ms).toBeCloseTo(5.79, 2);
  });

  it('computes only the tail of a prompt that it has seen', () => {
    const { submit, pass } = bed({ numGpuBlocks: 16_384, blockSizeTokens: 64 });
    submit(range(1000), 1);
    pass();
    const again = submit(range(1000), 1);
    expect(pass().ms).toBeCloseTo(17.1094, 4);
    expect(again.cachedTokens).toBe(960);
  });

  it('computes at least one token of a prompt that is cached whole', () => {
    const { submit, pass } = bed();
    submit(range(16), 1);
    pass();
    const again = submit(range(16), 1);
    pass();
    expect(again.cachedTokens).toBe(12);
  });

  it('spreads a long prompt over passes and lets short ones decode beside it', () => {
    const { submit, pass } = bed({ maxNumBatchedTokens: 10 });
    submit(range(4, 500), 5);
    expect(pass().emitted).toEqual([0]);
    submit(range(21), 1);
    expect(pass().emitted).toEqual([0]); // 1 + 9 tokens
    expect(pass().emitted).toEqual([0]); // 1 + 9
    expect(pass().emitted).toEqual([0, 1]); // 1 + 3
  });

  it('says what a pass left waiting, and not what came while it ran', () => {
    const { scheduler, submit, pass } = bed({ maxNumSeqs: 1 });
    submit(range(8), 3);
    submit(range(5, 100), 1);
    scheduler.startPass();
    submit(range(20, 200), 1);
    expect(scheduler.left).toEqual({ requests: 1, tokens: 5, preempted: 0, preemptedTokens: 0 });
    scheduler.finishPass();
    expect(scheduler.left).toMatchObject({ requests: 1, tokens: 5 }); // until the next one
    pass();
    expect(scheduler.left).toMatchObject({ requests: 2, tokens: 25 });
  });

  it('waits for a whole pass when prompts may not be cut', () => {
    const { submit, pass } = bed({ maxNumBatchedTokens: 10, enableChunkedPrefill: false });
    submit(range(6), 1);
    submit(range(6, 300), 1);
    expect(pass().emitted).toEqual([0]);
    expect(pass().emitted).toEqual([1]);
  });

  it('lets no request overtake one that does not fit', () => {
    const { submit, pass } = bed({ numGpuBlocks: 6 });
    submit(range(12), 4); // 3 blocks, 4 when it grows
    submit(range(16, 200), 1); // 4 blocks
    submit(range(4, 300), 1); // 1 block
    expect(pass().emitted).toEqual([0]);
    expect(pass().emitted).toEqual([0]);
    expect(pass().emitted).toEqual([0]);
    expect(pass().emitted).toEqual([0]);
    expect(pass().emitted).toEqual([1, 2]);
  });

  it('runs at most the given number of sequences', () => {
    const { submit, pass } = bed({ maxNumSeqs: 2 });
    for (let at = 0; at < 3; at++) submit(range(4, at * 100), 2);
    expect(pass().emitted).toEqual([0, 1]);
    expect(pass().emitted).toEqual([0, 1]);
    expect(pass().emitted).toEqual([2]);
  });

  it.each([
    ['lifo', 1],
    ['fifo', 0],
  ] as const)('takes memory back from the sequence admitted %s', (preemptionMode, victimId) => {
    const { submit, pass, scheduler } = bed({ numGpuBlocks: 4, preemptionMode });
    const sequences = [submit(range(8), 8), submit(range(8, 200), 8)];
    expect(pass().emitted).toEqual([0, 1]);
    pass(); // both need a third block, one of them gives way
    expect(sequences[victimId]?.preemptions).toBe(1);
    expect(sequences[1 - victimId]?.preemptions).toBe(0);
    for (let passes = 0; !scheduler.isIdle && passes < 100; passes++) pass();
    expect(sequences.map((sequence) => sequence.generated)).toEqual([8, 8]);
    expect(scheduler.pool.active).toBe(0);
  });

  it('frees a cancelled sequence at once between passes and at the end of a pass under way', () => {
    const { submit, pass, scheduler } = bed();
    const first = submit(range(8), 5);
    const second = submit(range(8, 200), 5);
    const third = submit(range(8, 300), 5);
    pass();
    scheduler.cancel(first);
    expect(scheduler.pool.active).toBe(4); // two sequences of two blocks; the next token takes one in the next pass
    scheduler.startPass();
    scheduler.cancel(second);
    scheduler.finishPass();
    expect(scheduler.runningCount).toBe(1);
    scheduler.cancel(third);
    expect(scheduler.pool.active).toBe(0);
    expect(scheduler.isIdle).toBe(true);
  });

  it('keeps nothing and tells nothing without prefix caching', () => {
    const events: string[] = [];
    const listener = { stored: () => events.push('stored'), removed: () => events.push('removed') };
    const { submit, pass, scheduler } = bed({ enablePrefixCaching: false }, listener);
    submit(range(16), 1);
    pass();
    const again = submit(range(16), 1);
    pass();
    expect(again.cachedTokens).toBe(0);
    expect(scheduler.pool.cached).toBe(0);
    expect(events).toEqual([]);
  });
});

const arrivals = fc.array(
  fc.record({
    pass: fc.nat(20),
    group: fc.nat(2), // prompts of one group share their beginnings
    promptLength: fc.integer({ min: 1, max: 24 }),
    outputLength: fc.integer({ min: 1, max: 8 }),
    cancelAt: fc.option(fc.nat(25), { nil: -1, freq: 6 }),
  }),
  { minLength: 1, maxLength: 25 },
);
const settings = fc
  .record({
    numGpuBlocks: fc.integer({ min: 8, max: 24 }),
    blockSizeTokens: fc.constant(4),
    maxNumSeqs: fc.integer({ min: 1, max: 6 }),
    maxNumBatchedTokens: fc.integer({ min: 2, max: 40 }),
    enablePrefixCaching: fc.boolean(),
    enableChunkedPrefill: fc.boolean(),
    preemptionMode: fc.constantFrom('lifo' as const, 'fifo' as const),
  })
  // A prompt that may not be cut must fit into a pass, also after a preemption.
  .map((options) => ({
    ...options,
    enableChunkedPrefill: options.enableChunkedPrefill || options.maxNumBatchedTokens < 32,
  }));

describe('scheduler against a naive model', () => {
  it('takes the same time, emits to the same sequences, stores and removes the same blocks and leaves the same waiting', () => {
    fc.assert(
      fc.property(settings, arrivals, (partial, requests) => {
        const options = { ...OPTIONS, ...partial };
        const events: string[] = [];
        const names = new Map<string, string>(); // hash pair -> tokens up to the block's end
        const { scheduler, submit, pass } = bed(options, {
          stored(blockNames, index) {
            const name = (blockNames as TokenNames).tokens.slice(0, (index + 1) * 4).join();
            names.set(`${blockNames.hashes[2 * index]}:${blockNames.hashes[2 * index + 1]}`, name);
            events.push(`stored ${name}`);
          },
          removed: (low, high) => events.push(`removed ${names.get(`${low}:${high}`)}`),
        });
        const naive = new NaiveScheduler(options);
        const submitted: { sequence: CountedSequence; cancelAt: number }[] = [];
        const naiveById = new Map<number, ReturnType<typeof naiveRequest>>();
        const queue = requests.toSorted((a, b) => a.pass - b.pass);
        for (let at = 0; at < 2000 && (queue.length > 0 || !scheduler.isIdle); at++) {
          for (let next = queue[0]; next !== undefined && next.pass <= at; next = queue[0]) {
            queue.shift();
            const prompt = range(next.promptLength, next.group * 1000);
            const sequence = submit(prompt, next.outputLength);
            const twin = naiveRequest(sequence.id, prompt, next.outputLength);
            naive.waiting.push(twin);
            naiveById.set(twin.id, twin);
            submitted.push({ sequence, cancelAt: next.cancelAt });
          }
          for (const { sequence, cancelAt } of submitted) {
            if (cancelAt !== at || sequence.state === 'gone') continue;
            scheduler.cancel(sequence);
            naive.cancel(sequence.id);
          }
          if (scheduler.isIdle) continue;
          const ms = naive.startPass();
          const emitted = naive.finishPass((request) => nextToken(request.tokens.length));
          const seen = pass();
          expect(seen.ms).toBeCloseTo(ms, 9);
          expect(seen.emitted).toEqual(emitted);
          expect(scheduler.pool.active).toBe(naive.active);
          expect(events.splice(0)).toEqual(naive.events.splice(0));
          expect(scheduler.left).toEqual(naive.left);
        }
        expect(scheduler.isIdle).toBe(true);
        expect(scheduler.pool.active).toBe(0);
        for (const { sequence } of submitted) {
          expect(sequence.cachedTokens).toBe(naiveById.get(sequence.id)?.cachedTokens);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
