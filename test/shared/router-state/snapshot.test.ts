import { describe, expect, it } from 'vitest';
import { readSnapshot, writeSnapshot } from '../../../shared/router-state/snapshots/snapshot.ts';

const HEAD = { createdAt: 'log-1', sequence: 7, cursors: [] };
const FACTS = { version: 2, createdAt: 'log-1', sequence: 7, indexes: {} };

function bytesWith(facts: unknown): Uint8Array {
  const text = Buffer.from(typeof facts === 'string' ? facts : JSON.stringify(facts));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return Buffer.concat([text, length]);
}

describe('a snapshot', () => {
  it('is read as it was written', () => {
    const cursors = [{ workerId: 'w1', dpRank: 2, eventId: 41, publisherId: undefined }];
    const index = { name: 'blocks', chunks: [Uint8Array.of(1, 2), Uint8Array.of(3)] };
    const read = readSnapshot(Buffer.concat([...writeSnapshot({ ...HEAD, cursors }, [index])]));
    expect(read.head).toEqual({ ...HEAD, cursors });
    expect([...(read.indexes.get('blocks') ?? [])]).toEqual([1, 2, 3]);
  });

  it.each([
    ['no JSON', '{', 'its facts'],
    ['a list', [], 'its facts'],
    ['a log without a name', { ...FACTS, createdAt: 1 }, 'createdAt'],
    ['a place below zero', { ...FACTS, sequence: -1 }, 'sequence'],
    ['indexes that are not indexes', { ...FACTS, indexes: 'blocks' }, 'indexes'],
    ['an index of half a byte', { ...FACTS, indexes: { blocks: 0.5 } }, 'blocks'],
    ['an index that is not there', { ...FACTS, indexes: { blocks: 5 } }, 'do not fill it'],
    ['another version', { ...FACTS, version: 3 }, 'version 3'],
    ['no version', { ...FACTS, version: undefined }, 'an earlier version'],
  ])('with %s is refused in words that name it', (_, facts, named) => {
    expect(() => readSnapshot(bytesWith(facts))).toThrow(RangeError);
    expect(() => readSnapshot(bytesWith(facts))).toThrow(named);
  });

  it('that is cut short is refused', () => {
    expect(() => readSnapshot(Uint8Array.of(1, 2))).toThrow('cut short');
    expect(() => readSnapshot(bytesWith(FACTS).subarray(4))).toThrow(RangeError);
  });
});
