import { describe, expect, it } from 'vitest';
import { readRouterRows } from '../../support/router/conformance.ts';

describe('decisions of release 1.6.1', () => {
  it.each(readRouterRows('test/fixtures/router/selection.jsonl'))('$id', ({ play }) => {
    expect(play()).toEqual([]);
  });
});
