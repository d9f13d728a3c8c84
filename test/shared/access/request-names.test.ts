import { describe, expect, it } from 'vitest';
import { RequestNames } from '../../../shared/access/index.ts';

const KEY = '1b4e28ba2fa14d3ba3f5ef19b5a7633b';
const SECRET = 'a secret of a deployment, 32 characters';

describe('the names of running requests', () => {
  it.each(['2a', '1fffffffffffff', 'ffffffffffffffff', undefined])(
    'tell every holder of the secret of worker %s',
    (workerId) => {
      const suffix = new RequestNames(SECRET).suffixOf({ key: KEY, workerId }, 'me');
      expect(suffix).toMatch(/^[0-9a-f]{40}$/);
      expect(new RequestNames(SECRET).read(KEY, suffix, 'me')).toEqual({ key: KEY, workerId });
    },
  );

  it('tell nothing to another owner, about another request, or without the secret', () => {
    const names = new RequestNames(SECRET);
    const suffix = names.suffixOf({ key: KEY, workerId: '2a' }, 'me');
    expect(names.read(KEY, suffix, 'you')).toBeUndefined();
    expect(names.read(KEY, suffix, '')).toBeUndefined();
    expect(names.read(KEY.replace('1', '2'), suffix, 'me')).toBeUndefined();
    expect(new RequestNames(`${SECRET}!`).read(KEY, suffix, 'me')).toBeUndefined();
  });

  it('count after the secret was rotated, until it is rotated again', () => {
    const [first, second, third] = ['1', '2', '3'].map((digit) => SECRET + digit) as [string, string, string];
    const suffix = new RequestNames(first).suffixOf({ key: KEY, workerId: '2a' }, 'me');
    const named = { key: KEY, workerId: '2a' };
    const rotated = new RequestNames(second, first);
    expect(rotated.read(KEY, suffix, 'me')).toEqual(named);
    expect(rotated.read(KEY, suffix, 'you')).toBeUndefined();
    expect(new RequestNames(third, second).read(KEY, suffix, 'me')).toBeUndefined();
    const newer = rotated.suffixOf(named, 'me');
    expect(new RequestNames(second).read(KEY, newer, 'me')).toEqual(named); // made with the current one
  });

  it('are changed in no digit without being none', () => {
    const names = new RequestNames(SECRET);
    const suffix = names.suffixOf({ key: KEY, workerId: '2a' }, 'me');
    for (let at = 0; at < suffix.length; at++) {
      const changed = suffix.slice(0, at) + (suffix[at] === '0' ? '1' : '0') + suffix.slice(at + 1);
      expect(names.read(KEY, changed, 'me')).toBeUndefined();
    }
    for (const other of ['', suffix.slice(1), `${suffix}0`, suffix.toUpperCase()]) {
      expect(names.read(KEY, other, 'me') === undefined || other === suffix).toBe(true);
    }
  });

  it('do not mix an owner with what stands before it', () => {
    const names = new RequestNames(SECRET);
    const suffix = names.suffixOf({ key: KEY, workerId: '2a' }, 'b/c');
    expect(names.read(KEY, suffix, 'c')).toBeUndefined();
  });
});
