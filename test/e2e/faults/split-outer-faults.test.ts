import { afterEach, describe, expect, it } from 'vitest';
import { cellsAt, LONG_PROMPTS, type MatrixBed, SPLIT, useMatrixBed } from './matrix-bed.ts';
import { describeOuterFaults, expectLeft } from './outer-faults.ts';

const REQUESTS = 'dynamo_component_requests_total';
const CANCELLED = 'dynamo_component_cancellation_total';

/** A worker that drains keeps its requests: on a busy machine they would else have moved when their clients leave. */
const PATIENT = { DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '5' };

/** Returns how many requests the two pools have had and cancelled so far. */
async function countsOf(bed: MatrixBed) {
  const sums = [REQUESTS, CANCELLED].flatMap((name) => [bed.sum(name, 'first'), bed.sum(name, 'last')]);
  const [prefills = 0, decodes = 0, prefillsCut = 0, decodesCut = 0] = await Promise.all(sums);
  return { prefills, decodes, prefillsCut, decodesCut };
}

describe('a client that leaves', () => {
  const bed = useMatrixBed({ pools: SPLIT, workerArgs: LONG_PROMPTS, env: PATIENT });
  afterEach(() => bed.mend());

  it.each(cellsAt('in prefill', ['queued', 'before the first token', 'in prefill']))(
    '$stage ($form): its prefill worker gets one message to stop, and no worker decodes',
    async (cell) => {
      const before = await countsOf(bed);
      await expectLeft(bed, cell);
      const after = await countsOf(bed);
      expect(after.prefillsCut).toBe(before.prefillsCut + 1);
      expect(after.decodesCut).toBe(before.decodesCut);
      // Those that kept engines busy were decoded, the one that left was not.
      expect(after.decodes - before.decodes).toBe(after.prefills - before.prefills - 1);
    },
  );

  it.each(cellsAt('in mid-stream', ['in mid-stream', 'at the last token']))(
    '$stage ($form): its decode worker gets one message to stop, and no prefill worker does',
    async (cell) => {
      const before = await countsOf(bed);
      await expectLeft(bed, cell);
      const after = await countsOf(bed);
      expect(after.prefillsCut).toBe(before.prefillsCut);
      // The last token may have been on its way: then there was nothing left to cancel.
      const told = after.decodesCut - before.decodesCut;
      if (cell.stage === 'at the last token') expect(told).toBeLessThanOrEqual(1);
      else expect(told).toBe(1);
    },
  );

  it.each(cellsAt('during a prefill drain', ['during a prefill drain', 'during a drain']))(
    '$stage ($form): the other pool is left alone',
    async (cell) => {
      const before = await countsOf(bed);
      await expectLeft(bed, cell);
      const after = await countsOf(bed);
      if (cell.stage === 'during a drain') expect(after.prefillsCut).toBe(before.prefillsCut);
      else expect(after.decodes).toBe(before.decodes);
    },
  );
});

/**
 * Faults outside the workers meet a disaggregated request in two ways: while its prompt is computed, when the second stage is
 * still to come, and while it is answered, when the first stage is over. The other stages differ from those of one pool in
 * nothing but the worker that has the request, and `outer-faults.test.ts` has them.
 */
describeOuterFaults(SPLIT, cellsAt('in prefill', ['in prefill', 'in mid-stream']));
