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
