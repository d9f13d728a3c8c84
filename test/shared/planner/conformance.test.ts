import { describe, expect, it } from 'vitest';
import { readPlannerFolder } from '../../support/planner/conformance.ts';

describe('as recorded, the planner answers', () => {
  it.each(readPlannerFolder('test/fixtures/planner').map((row) => [row.id, row] as const))('%s', (_, row) => {
    expect(row.play()).toEqual([]);
  });
});
