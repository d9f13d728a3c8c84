import { describe, expect, it } from 'vitest';
import { isPainted } from '../../../shared/telemetry/log/logger.ts';

describe('colours of a log', () => {
  it.each([
    [{}, true, true],
    [{}, false, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '' }, true, true],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ FORCE_COLOR: '0' }, true, false],
    [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
    [{ TERM: 'dumb' }, true, false],
  ])('with %j, on a terminal: %s, are on: %s', (env, isTerminal, expected) => {
    expect(isPainted(env, isTerminal)).toBe(expected);
  });
});
