import { expect, it } from 'vitest';
import { type ExplanationRecord, renderExplanation } from '../../../shared/scheduler/index.ts';

const UNDECIDED: ExplanationRecord = {
  ...{ request_id: 'r1', cost_model: 'stator', prompt_tokens: 3, blocks: 1, temperature: 0, waited_ms: 0 },
  ...{ chosen: null, failure: 'all are busy', candidates: [] },
};

it('an explanation for a model with several worker sets names the set of each table', () => {
  const set = (card: string, namespace: string, workers: number) => ({ card, namespace, workers, all_workers: 3 });
  const text = renderExplanation({
    ...UNDECIDED,
    worker_set: set('aa', 'prod-2', 2),
    other_sets: [{ ...UNDECIDED, prompt_tokens: 5, worker_set: set('bb', 'prod-1', 1) }],
  });
  expect(text.split('\n').filter((line) => /^(set|request) /.test(line))).toEqual([
    'set      card aa in prod-2, 2 of 3 workers',
    'request  r1: 3 prompt tokens in 1 blocks, cost model stator',
    'set      card bb in prod-1, 1 of 3 workers',
    'request  r1: 5 prompt tokens in 1 blocks, cost model stator',
  ]);
  expect(renderExplanation(UNDECIDED)).not.toContain('set  ');
});

it('the explanation of a decision that was made again says what changed', () => {
  const first = { worker_id: 'a1', dp_rank: 0 };
  const chosen = { worker_id: 'b2', dp_rank: 1, reason: 'lowest-cost' };
  const text = renderExplanation({ ...UNDECIDED, chosen, second_look: { held_ms: 6.5, before: 3, first } });
  expect(text).toContain('decided again after 6.50 ms with 3 of other routers before it (first worker a1 rank 0)');
  expect(text).toContain('worker b2 rank 1');
});
