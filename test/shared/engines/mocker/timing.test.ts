import { describe, expect, it } from 'vitest';
import { decodeMs, passMs, prefillMs } from '../../../../shared/engines/mocker/timing.ts';

const SPEED = { speedupRatio: 1, decodeSpeedupRatio: 1 };
const NO_WORK = { prefills: 0, prefillStart: 0, prefillEnd: 0, decodes: 0, decodeContext: 0 };

describe('pass time', () => {
  it.each([
    [128, 18.4518],
    [1000, 32.1059],
    [2048, 49.3629],
    [4096, 85.756],
    [8192, 169.1369],
    [40, 17.1094],
  ])('of prefilling %i tokens is %f ms', (tokens, expectedMs) => {
    expect(prefillMs(tokens)).toBeCloseTo(expectedMs, 4);
  });

  it.each([
    [0, 5.74],
    [0.01, 6.2775],
    [0.1, 10.8836],
    [0.25, 17.6337],
    [0.5, 26.31],
    [0.75, 31.7688],
    [1, 34.01],
    [3, 34.01],
  ])('of decoding with the cache %f full is %f ms', (usage, expectedMs) => {
    expect(decodeMs(usage)).toBeCloseTo(expectedMs, 4);
  });

  it('is nothing when nothing prefills or decodes', () => {
    expect(passMs(NO_WORK, 1000, SPEED)).toBe(0);
  });

  it('averages prefill positions with integer division', () => {
    const work = { ...NO_WORK, prefills: 3, prefillStart: 10, prefillEnd: 110 };
    expect(passMs(work, 1000, SPEED)).toBeCloseTo(prefillMs(3 * (36 - 3)), 10);
  });

  it('divides both parts by the speed-up, and decoding by its own as well', () => {
    const work = { prefills: 1, prefillStart: 0, prefillEnd: 1000, decodes: 1, decodeContext: 500 };
    const expectedMs = prefillMs(1000) / 10 + decodeMs(0.5) / 40;
    expect(passMs(work, 1000, { speedupRatio: 10, decodeSpeedupRatio: 4 })).toBeCloseTo(expectedMs, 10);
  });

  it('reads a speed-up of 0 as 1', () => {
    const work = { prefills: 1, prefillStart: 0, prefillEnd: 1000, decodes: 1, decodeContext: 500 };
    expect(passMs(work, 1000, { speedupRatio: 0, decodeSpeedupRatio: 0 })).toBe(passMs(work, 1000, SPEED));
  });
});
