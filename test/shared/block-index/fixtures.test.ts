import { describe, expect, it } from 'vitest';
import { readRouterRows } from '../../support/router/conformance.ts';

describe('block index on recorded event sequences', () => {
  it.each(readRouterRows('test/fixtures/router/index-sequences.jsonl'))('$id', ({ play }) => {
    expect(play()).toEqual([]);
  });
});
