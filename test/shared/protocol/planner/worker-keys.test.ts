import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  instanceKey,
  instanceKeyOf,
  packSortedKeys,
  unpackSortedKeys,
  workerKey,
} from '../../../../shared/protocol/index.ts';

describe('keys of workers', () => {
  it('come back from their packed form in ascending order, twice if they were there twice', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.option(fc.string(), { nil: undefined }))), (workers) => {
        const keys = workers.map(([id, instance]) => workerKey(id, instance));
        const sorted = keys.toSorted((one, other) => one - other);
        expect(unpackSortedKeys(packSortedKeys(keys))).toEqual(sorted);
      }),
    );
  });

  it('name the instance, if it is known', () => {
    const id = 'abcdef0123456789';
    expect(instanceKeyOf(workerKey(id))).toBeUndefined();
    expect(instanceKeyOf(workerKey(id, 'i-0123'))).toBe(instanceKey('i-0123'));
    expect(instanceKeyOf(workerKey('another', 'i-0123'))).toBe(instanceKey('i-0123'));
    expect(workerKey('another', 'i-0123')).not.toBe(workerKey(id, 'i-0123'));
    expect(instanceKey('i-0124')).not.toBe(instanceKey('i-0123'));
  });

  it('tell the workers and the instances of a fleet of ten thousand apart', () => {
    const instances = Array.from({ length: 10_000 }, (_, at) => `i-${(0x0abc_def0_0000 + at).toString(16)}`);
    expect(new Set(instances.map(instanceKey)).size).toBeGreaterThan(9_990);
    const keys = instances.map((instance, at) => workerKey(at.toString(16), instance));
    expect(new Set(keys).size).toBeGreaterThan(9_998);
    const ofOne = Array.from({ length: 64 }, (_, at) => workerKey(`w${at}`, 'i-0123'));
    expect(new Set(ofOne).size).toBeGreaterThan(62);
  });

  it('lose only the last one when their bytes are cut short', () => {
    const packed = packSortedKeys([workerKey('one', 'i-1'), workerKey('two', 'i-2')]);
    const bytes = Buffer.from(packed, 'base64');
    expect(unpackSortedKeys(bytes.subarray(0, bytes.length - 1).toString('base64'))).toHaveLength(1);
  });
});
