import { describe, expect, it } from 'vitest';
import { type Point, rankBy, searchPoints } from '../../../../shared/simulate/tune/search.ts';

/** Costs by the distance from a point of its own for each figure. */
function distances(goals: Readonly<Record<'one' | 'other', Point>>) {
  const seen: string[] = [];
  const to = (goal: Point, point: Point): number =>
    point.reduce((sum, at, axis) => sum + Math.abs(at - goal[axis]!), 0);
  const evaluate = (point: Point) => {
    seen.push(point.join());
    return { one: to(goals.one, point), other: to(goals.other, point) };
  };
  return { seen, evaluate };
}

const SEARCH = { axes: [7, 4, 5], figures: ['one', 'other'] as const, grid: [[0, 0, 0]], pointsMax: 140 };

describe('searchPoints', () => {
  it('finds the best point of each figure, without the whole grid', async () => {
    const goals = { one: [6, 3, 4], other: [3, 0, 2] };
    const { seen, evaluate } = distances(goals);
    const evaluated = await searchPoints({ ...SEARCH, evaluate });
    expect(rankBy(evaluated, 'one')[0]?.point).toEqual(goals.one);
    expect(rankBy(evaluated, 'other')[0]?.point).toEqual(goals.other);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBeLessThan(100);
  });

  it('finds a second valley if a point of the grid is in it', async () => {
    const evaluate = ([x = 0]: Point) => ({ one: [3, 2, 9, 9, 9, 1, 0][x]!, other: 0 });
    const search = { ...SEARCH, axes: [7], evaluate };
    expect(rankBy(await searchPoints({ ...search, grid: [[0]] }), 'one')[0]?.point).toEqual([1]);
    expect(rankBy(await searchPoints({ ...search, grid: [[0], [5]] }), 'one')[0]?.point).toEqual([6]);
  });

  it('evaluates as many points as it may', async () => {
    const { seen, evaluate } = distances({ one: [6, 3, 4], other: [6, 3, 4] });
    const evaluated = await searchPoints({ ...SEARCH, pointsMax: 9, evaluate });
    expect(seen).toHaveLength(9);
    expect(evaluated).toHaveLength(9);
  });
});
