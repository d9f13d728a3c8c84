import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { misspeltName, nearestName } from '../../../shared/errors/index.ts';

const FLAGS = ['--router-mode', '--router-seed', '--http-port', '--http-host', '--model-name', '--model-path'];

describe('nearestName', () => {
  it.each([
    ['--router-mod', '--router-mode'],
    ['--ruoter-mode', '--router-mode'],
    ['--htpp-port', '--http-port'],
    ['--modelpath', '--model-path'],
    ['--name', '--model-name'],
  ])('finds for %s the name %s', (typed, expected) => {
    expect(nearestName(typed, FLAGS)).toBe(expected);
  });

  it('finds nothing for what is like none', () => {
    expect(nearestName('--zzzz-qqqq-xxxx', FLAGS)).toBeUndefined();
  });

  it.each([
    ['temprature', 'temperature'],
    ['max_token', 'max_tokens'],
    ['sotp', 'stop'],
    ['add_special_tokens', undefined],
    ['x', undefined],
  ])('takes %s for a misspelling of %s', (typed, meant) => {
    expect(misspeltName(typed, ['temperature', 'max_tokens', 'stop', 'n', 'skip_special_tokens'])).toBe(meant);
  });

  it('finds nothing for a name that is too long to be a misspelt one', () => {
    expect(nearestName(`${'--http-port'.repeat(20)}`, [`${'--http-port'.repeat(20)}`])).toBeUndefined();
  });

  it('undoes any one typing error', () => {
    const position = fc.nat();
    fc.assert(
      fc.property(fc.constantFrom(...FLAGS), position, fc.constantFrom('drop', 'double', 'swap'), (flag, at, error) => {
        const index = 2 + (at % (flag.length - 3));
        const [before, one, two, after] = [flag.slice(0, index), flag[index], flag[index + 1], flag.slice(index + 2)];
        const typed =
          error === 'drop'
            ? before + two + after
            : error === 'double'
              ? before + one + one + two + after
              : before + two + one + after;
        expect(nearestName(typed, FLAGS)).toBe(flag);
      }),
    );
  });
});
