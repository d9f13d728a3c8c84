import fc from 'fast-check';
import { Packr, Unpackr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { PlainItems } from '../../../../../shared/planes/request/dynamo/plain-items.ts';

const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });

function itemOf(ids: readonly number[], more: object = {}, isFinal = false) {
  const output = { token_ids: ids, tokens: null, text: null, output_type: 'text', finish_reason: null, ...more };
  return { data: { data: output }, complete_final: isFinal };
}

/** Bytes of `value` between other bytes, as in a read of a socket. */
function inside(value: unknown): [Buffer, number, number] {
  const bytes = packr.pack(value);
  return [Buffer.concat([Buffer.from('\xa9token_ids', 'latin1'), bytes, Buffer.alloc(9)]), 10, 10 + bytes.length];
}

function learned(value: unknown): PlainItems {
  const plain = new PlainItems();
  plain.learn(value, ...inside(value));
  return plain;
}

const id = fc.oneof(fc.nat(127), fc.nat(255), fc.nat(65_535), fc.nat(0xffff_ffff));
const ids = fc.array(id, { minLength: 1, maxLength: 15 });

describe('plain items of an answer', () => {
  it('are read like the one that was learned, whatever their ids', () => {
    fc.assert(
      fc.property(ids, ids, fc.nat(3), (first, second, choice) => {
        const plain = learned(itemOf(first, { index: choice }));
        const count = plain.read(...inside(itemOf(second, { index: choice })));
        expect([plain.choice, ...plain.ids.subarray(0, count)]).toEqual([choice, ...second]);
      }),
    );
  });

  it.each([
    ['a finish', itemOf([1], { finish_reason: 'stop' })],
    ['a text', itemOf([1], { text: 'token_ids' })],
    ['another choice', itemOf([1], { index: 1 })],
    ['no ids', itemOf([])],
    ['more ids than a short list has', itemOf(Array.from({ length: 16 }, () => 1))],
    ['an id that is not one', itemOf([-1])],
    ['an id that is a float', itemOf([1.5])],
    ['the mark of the end', itemOf([1], {}, true)],
    ['a number', 5],
  ])('are not mistaken for one with %s', (_, other) => {
    expect(learned(itemOf([7])).read(...inside(other))).toBe(0);
  });

  it.each([
    ['a finish', itemOf([1], { finish_reason: 'stop' })],
    ['the mark of the end', itemOf([1], {}, true)],
    ['log probabilities', itemOf([1], { log_probs: [-1] })],
    ['an error', { data: { event: 'error', comment: ['no'] }, complete_final: false }],
  ])('are not learned from one with %s', (_, item) => {
    expect(learned(item).read(...inside(item))).toBe(0);
  });

  it('are read only from bytes that mean the same', () => {
    const plain = learned(itemOf([7]));
    const [bytes, start, end] = inside(itemOf([300]));
    fc.assert(
      fc.property(fc.nat(end - start - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(bytes);
        changed[start + at] = (changed[start + at] as number) ^ change;
        const count = plain.read(changed, start, end);
        if (count === 0) return;
        const read = itemOf([...plain.ids.subarray(0, count)]);
        expect(unpackr.unpack(changed.subarray(start, end))).toEqual(read);
      }),
    );
  });
});
