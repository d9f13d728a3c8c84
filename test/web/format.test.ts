import { describe, expect, it } from 'vitest';
import { duration } from '../../web/format.ts';

describe('a duration on a page of the console', () => {
  it.each([
    [0, '0.0 ms'],
    [9.94, '9.9 ms'],
    [9.96, '10 ms'],
    [999.4, '999 ms'],
    [999.6, '1.00 s'],
    [9994, '9.99 s'],
    [9996, '10.0 s'],
    [99_949, '99.9 s'],
    [99_960, '1 min 40 s'],
    [119_400, '1 min 59 s'],
    [119_600, '2 min 0 s'],
    [3_599_700, '60 min 0 s'],
  ])('of %d ms is written as %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it('is a dash while it is unknown', () => {
    expect([duration(undefined), duration(null)]).toEqual(['–', '–']);
  });
});
