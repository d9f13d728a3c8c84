import { afterEach, describe, expect, it } from 'vitest';
import { waitUntil } from '../../support/index.ts';
import { expectWhole, FORMS, IS_FULL, LONG_PROMPTS, SPLIT, TRANSFER, useMatrixBed } from './matrix-bed.ts';
import { WORKER_FAULTS } from './worker-faults.ts';

const FALLBACKS = 'dynamo_frontend_decode_only_fallback_total';
const REQUESTS = 'dynamo_component_requests_total';
const INFLIGHT = 'dynamo_component_inflight_requests';
const CACHE_USAGE = 'dynamo_component_gpu_cache_usage_percent';

/** The blocks of a prompt take a third of a second to cross. */
const SLOW_LINK = ['--kv-bytes-per-token=1000000', '--kv-transfer-bandwidth=0.05'];

const faults = IS_FULL ? WORKER_FAULTS : WORKER_FAULTS.filter(({ name }) => name === 'killed');
/** Streamed only: while blocks move, nothing has been said to the client in either form. */
describe.each(faults)('a worker that is $name while blocks move', ({ bed: options, strike }) => {
  const bed = useMatrixBed({ pools: SPLIT, workerArgs: SLOW_LINK, ...options });
  afterEach(() => bed.mend());

  it('to it: another goes on, and the client notices nothing', async () => {
    const run = await bed.reach(TRANSFER, 'stream');
    await strike(bed, run);
    await expectWhole(run);
    await run.victim.exited;
  });

  it('away from it: the client notices nothing', async () => {
    const reached = await bed.reach(TRANSFER, 'stream');
    const run = { ...reached, victim: await reached.source() };
    await strike(bed, run);
    await expectWhole(run);
    await run.victim.exited;
  });
});

describe('prefill workers that are all killed', () => {
  const bed = useMatrixBed({ pools: SPLIT, workerArgs: LONG_PROMPTS });
  afterEach(() => bed.mend());

  it.each(FORMS)('leave the prompt to the decode worker, and it is counted (%s)', async (form) => {
    const before = await bed.frontend.metric(FALLBACKS);
    const other = await bed.reach('in prefill', form);
    bed.lost(other.victim);
    await other.victim.kill();
    await expectWhole(other);
    expect(await bed.frontend.metric(FALLBACKS)).toBe(before);
    const run = await bed.reach('in prefill', form);
    bed.lost(run.victim);
    await run.victim.kill();
    await expectWhole(run);
    expect(await bed.frontend.metric(FALLBACKS)).toBe(before + 1);
  });
});

describe('prefill workers', () => {
  const bed = useMatrixBed({ pools: SPLIT });
  afterEach(() => bed.mend());

  it('go on while decode workers have more than they can take', async () => {
    const tokens = 200; // most of a second each, one at a time
    const before = await bed.sum(REQUESTS, 'first');
    const answers = Array.from({ length: 6 }, () => bed.ask('unary', tokens).answer);
    await waitUntil(async () => (await bed.sum(REQUESTS, 'first')) === before + answers.length);
    for (const name of [INFLIGHT, CACHE_USAGE]) {
      await waitUntil(async () => (await bed.sum(name, 'first')) === 0, { what: 'prefill workers with nothing to do' });
    }
    expect(await bed.sum(INFLIGHT, 'last')).toBeGreaterThan(2);
    const [first, ...others] = await Promise.all(answers);
    expect(first).toMatchObject({ status: 200, finishReason: 'length', usage: [17, tokens] });
    for (const answer of others) expect(answer).toEqual(first);
  });
});
