import { expect, it } from 'vitest';
import { InferStatistics } from '../../../../shared/frontends/grpc/models.ts';

it('counts the first request of a model, however many others were asked before it', () => {
  const statistics = new InferStatistics();
  const names = Array.from({ length: 1100 }, (_, at) => `model-${at}`);
  for (const name of names) statistics.noted(name, { hasSucceeded: true, ms: 5, wallMs: 7 });
  const [first, last] = statistics.of([names[0]!, names.at(-1)!]).modelStats!;
  expect([first!.inferenceCount, last!.inferenceCount]).toEqual([0n, 1n]);
});
