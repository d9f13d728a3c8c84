import { describe, expect, it } from 'vitest';
import { BoundedMap } from '../../../shared/records/index.ts';

function bed(sizeMax: number) {
  const dropped: string[] = [];
  const map = new BoundedMap<string, number>(sizeMax, (value, key) => dropped.push(`${key}=${value}`));
  return { map, dropped };
}

describe('a map of a bounded number of entries', () => {
  it('drops the entry that was set longest ago, and says which', () => {
    const { map, dropped } = bed(2);
    map.set('a', 1).set('b', 2).set('c', 3).set('d', 4);
    expect([...map]).toEqual([
      ['c', 3],
      ['d', 4],
    ]);
    expect(dropped).toEqual(['a=1', 'b=2']);
  });

  it('takes an entry that is set again, or used, for the latest, and one that is only read for what it was', () => {
    const { map, dropped } = bed(3);
    map.set('a', 1).set('b', 2).set('c', 3);
    map.set('a', 10);
    expect(map.use('b')).toBe(2);
    expect(map.get('c')).toBe(3);
    expect(map.use('d')).toBeUndefined();
    map.set('e', 5);
    expect([...map.keys()]).toEqual(['a', 'b', 'e']);
    expect(dropped).toEqual(['c=3']);
  });

  it('says nothing of what is replaced or deleted, and makes room by it', () => {
    const { map, dropped } = bed(2);
    map.set('a', 1).set('a', 2).set('b', 3);
    map.delete('a');
    map.set('c', 4);
    expect([...map.keys()]).toEqual(['b', 'c']);
    expect(dropped).toEqual([]);
  });

  it('keeps nothing where its bound is 0, and drops nothing where it is empty', () => {
    const { map, dropped } = bed(0);
    map.set('a', 1);
    map.dropOldest();
    expect(map.size).toBe(0);
    expect(dropped).toEqual(['a=1']);
  });

  it('holds its bound whatever comes', () => {
    const map = new BoundedMap<number, number>(100);
    for (let at = 0; at < 10_000; at++) {
      map.set((at * 7919) % 1000, at);
      map.use((at * 104_729) % 1000);
    }
    expect(map.size).toBe(100);
  });
});
