import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scanTokenIds } from '../../../../shared/engines/server/token-reader.ts';

const MARKER = '"token_ids":[';

function scan(text: string): number[] | undefined {
  const found = scanTokenIds(text, MARKER);
  return found === undefined ? undefined : [...found.ids.subarray(0, found.count)];
}

describe('ids read where they stand', () => {
  it('reads the same as JSON.parse, with any other fields in the event', () => {
    const ids = fc.array(fc.integer({ min: 0, max: 0xffff_ffff }), { maxLength: 3000, size: 'max' });
    fc.assert(
      fc.property(ids, fc.string(), (token_ids, text) => {
        expect(scan(JSON.stringify({ text, choices: [{ token_ids, finish_reason: null }] }))).toEqual(token_ids);
      }),
      { numRuns: 50 },
    );
  });

  it('is not misled by a text that spells the marker', () => {
    const text = JSON.stringify({ text: `${MARKER}1,2]`, token_ids: [3] });
    expect(scan(text)).toEqual([3]);
    expect(scan(JSON.stringify({ text: `${MARKER}1,2]` }))).toBeUndefined();
    expect(scan('{"prompt_token_ids":[9],"token_ids":[4]}')).toEqual([4]);
  });

  it.each([
    '',
    '"token_ids":[',
    '"token_ids":[1',
    '"token_ids":[1,',
    '"token_ids":[1,]',
    '"token_ids":[,1]',
    '"token_ids":[-1]',
    '"token_ids":[1.5]',
    '"token_ids":[ 1]',
    '"token_ids":[4294967296]',
    '"token_ids":["1"]',
    '"token_ids":null',
  ])('leaves %j to be parsed', (text) => {
    expect(scan(text)).toBeUndefined();
  });
});
