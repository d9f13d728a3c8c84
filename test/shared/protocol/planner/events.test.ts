import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  deduplicationIdOf,
  groupOf,
  NO_TRAFFIC,
  type PlannerEventOf,
  readPlannerEvent,
  readPlannerText,
  sourceOf,
} from '../../../../shared/protocol/index.ts';

const HELD: PlannerEventOf<'request.held'> = {
  type: 'request.held',
  v: 1,
  namespace: 'dynamo',
  model: 'm',
  source: 'edge-1',
  epoch: 'e',
  seq: 3,
  held_count: 2,
  oldest_at: 1_700_000_000_000,
};

const ROLLUP: PlannerEventOf<'worker.rollup'> = {
  type: 'worker.rollup',
  v: 1,
  namespace: 'dynamo',
  model: 'm',
  component: 'agg',
  worker_id: 'ab12',
  epoch: 'e',
  seq: 0,
  at: 1_700_000_000_000,
  totals: { ...NO_TRAFFIC, started: 4 },
  ranks: [{ dp_rank: 0, running: 1, waiting: 0, kv_blocks: 5, kv_blocks_max: 10, prefill_tokens: 0 }],
  engine: { gpus: 1, kv_block_size: 64 },
  has_passes: false,
};

function problemOf(raw: unknown): string {
  const read = readPlannerEvent(raw);
  return read.kind === 'refused' ? read.problem : 'taken';
}

describe('events of the planner', () => {
  it('are taken as they are', () => {
    for (const event of [HELD, ROLLUP]) expect(readPlannerEvent(event)).toEqual({ kind: 'event', event });
    expect(readPlannerText(JSON.stringify(ROLLUP))).toEqual({ kind: 'event', event: ROLLUP });
  });

  it.each([
    ['an unknown version', { ...HELD, v: 2 }, /version 2 of "request.held" is not known; this planner reads 1/],
    ['no version', { ...HELD, v: undefined }, /version undefined/],
    ['an unknown type', { ...HELD, type: 'request.gone' }, /"request.gone"/],
    ['NaN', { ...ROLLUP, totals: { ...NO_TRAFFIC, started: Number.NaN } }, /totals\.started/],
    ['an infinite sum', { ...ROLLUP, totals: { ...NO_TRAFFIC, ttft_sum_s: Infinity } }, /totals\.ttft_sum_s/],
    ['a negative count', { ...HELD, held_count: -1 }, /held_count/],
    ['a count beyond reason', { ...HELD, held_count: 1e12 }, /held_count/],
    ['half a request', { ...ROLLUP, totals: { ...NO_TRAFFIC, started: 0.5 } }, /totals\.started/],
    ['seconds for milliseconds', { ...HELD, oldest_at: 1_700_000_000 }, /oldest_at/],
    ['no worker', { ...ROLLUP, worker_id: '' }, /worker_id/],
    ['no ranks', { ...ROLLUP, ranks: [] }, /ranks/],
    ['no record', [HELD], /it is not a record/],
    [
      'a pass of an hour and more',
      { ...ROLLUP, ranks: [{ ...ROLLUP.ranks[0], last: [4000, 0, 0, 0, 0, 0, 0, 0, 0, 0] }] },
      /ranks\.0\.last\.0/,
    ],
  ])('with %s are refused by name', (_, raw, problem) => {
    expect(problemOf(raw)).toMatch(problem);
    expect(problemOf(raw)).toMatch(/^planner event refused/);
  });

  it('that are no JSON, or too long, are refused', () => {
    expect(readPlannerText('{')).toMatchObject({ kind: 'refused', problem: expect.stringContaining('not JSON') });
    expect(readPlannerText(`"${'x'.repeat(256 * 1024)}"`)).toMatchObject({
      kind: 'refused',
      problem: expect.stringContaining('more than 262144'),
    });
  });

  it('never throw, whatever comes', () => {
    fc.assert(
      fc.property(fc.anything(), fc.string(), (raw, text) => {
        expect(['event', 'refused']).toContain(readPlannerEvent(raw).kind);
        expect(['event', 'refused']).toContain(readPlannerText(text).kind);
      }),
    );
  });

  it('have a source each', () => {
    expect(sourceOf(HELD)).toBe('edge-1');
    expect(sourceOf(ROLLUP)).toBe('ab12');
  });

  it('are the same event only with the same source, epoch and number', () => {
    const id = deduplicationIdOf(HELD);
    expect(id).toMatch(/^[0-9a-f]{64}$/);
    expect(deduplicationIdOf({ ...HELD, held_count: 9 })).toBe(id);
    for (const other of [{ seq: 4 }, { epoch: 'f' }, { source: 'edge-2' }, { model: 'n' }, { namespace: 'd' }]) {
      expect(deduplicationIdOf({ ...HELD, ...other })).not.toBe(id);
    }
  });

  it('have a group that every queue takes, another for each model', () => {
    expect(groupOf({ namespace: 'dynamo', model: 'Qwen/Qwen3-0.6B' })).toBe('dynamo#Qwen/Qwen3-0.6B');
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
        fc.string({ minLength: 1 }),
        (a, b) => {
          const group = groupOf({ namespace: a, model: b });
          expect(group).toMatch(/^[!-~]{1,128}$/);
          if (a !== b) expect(groupOf({ namespace: b, model: a })).not.toBe(group);
        },
      ),
    );
  });
});
