import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nearestName } from '../../../shared/config/index.ts';

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
