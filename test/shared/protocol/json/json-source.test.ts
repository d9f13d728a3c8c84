import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJsonBody, parseLargeJsonBody, readJson } from '../../../../shared/protocol/index.ts';
import { writeJson } from '../../../../shared/protocol/json/json-source.ts';

const TEXTS = [
  '{"b":1,"2024":2,"10":{"7":[],"a":"x"},"a":0.0}',
  '[0.0,1e400,-0,12345678901234567890,1.50,1E5,{"0":-0.0}]',
  '{"9":{"8":{"7":[[1.0],[2]]}},"":"\\"3\\": 1.0","x\\u0031":1e2}',
  '{"0":1,"00":2,"-1":3,"1.5":4}',
  '12345678901234567890',
  '"1.0"',
];

describe('JSON with its source', () => {
  it.each(TEXTS)('writes what it has read as it was written: %s', (text) => {
    expect(writeJson(readJson(text))).toBe(text.replace('x\\u0031', 'x1'));
  });

  it('loses nothing of any text', async () => {
    const { value: text } = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom(
          '1',
          '-7',
          '0.0',
          '-0',
          '1e5',
          '2E-3',
          '123456789012345',
          '1234567890123456',
          '-12345678901234567',
        ),
        fc.constantFrom('true', 'null', '"1.0"', '"3"', '"-0e1"', '"\\\\"', '"7\\":"'),
        fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
        fc
          .uniqueArray(fc.tuple(fc.constantFrom('a', '1', '10', '007', 'b2', '-1', '1.5'), tie('value')), {
            maxLength: 4,
            selector: ([key]) => key,
          })
          .map((members) => `{${members.map(([key, member]) => `"${key}":${member}`).join(',')}}`),
      ),
    }));
    const check = (json: string): void => {
      expect(writeJson(readJson(json))).toBe(json);
      const body = Buffer.from(`{"input":[{"a":${json}}]}`);
      expect(writeJson(parseJsonBody(body).value)).toBe(body.toString());
    };
    fc.assert(fc.property(text, check));
    const inPieces = async (json: string): Promise<void> => {
      const body = Buffer.from(`{"input":[{"a":${json}}]}`);
      expect(writeJson((await parseLargeJsonBody(body, async () => undefined)).value)).toBe(body.toString());
    };
    await fc.assert(fc.asyncProperty(text, inPieces));
  });

  it.each([0, 1, 62, 63, 64, 65, 200])('loses no number that %i spaces follow', async (spaces) => {
    const number = `12345678901234567890${' '.repeat(spaces)}`;
    const body = Buffer.from(`{"input":[{"a":[${number},1,${number}],"b":${number}}]}`);
    const written = body.toString().replaceAll(' ', '');
    for (const { value } of [parseJsonBody(body), await parseLargeJsonBody(body, async () => undefined)])
      expect(writeJson(value)).toBe(written);
  });

  it('has values as JSON.parse makes them, with nothing to see beside them', () => {
    for (const text of TEXTS.slice(0, 4)) {
      expect(JSON.stringify(readJson(text))).toBe(JSON.stringify(JSON.parse(text)));
      expect(Object.keys(readJson(text) as object)).toEqual(Object.keys(JSON.parse(text)));
    }
  });

  it('keeps the order in copies, appends new keys, and keeps no replaced number', () => {
    const read = readJson('{"b":1.0,"3":2.0,"a":1}') as Record<string, unknown>;
    expect(writeJson({ ...read, c: 5, 3: 7 })).toBe('{"b":1.0,"3":7,"a":1,"c":5}');
  });

  it('reads of two members of one name the last', () => {
    expect(writeJson(readJson('{"a":{"2":1.0},"1":0,"a":{"3":2.0}}'))).toBe('{"a":{"3":2.0},"1":0}');
    expect(writeJson(readJson('{"__proto__":{"2":1.0},"1":0}'))).toBe('{"__proto__":{"2":1.0},"1":0}');
  });

  it.each(['{"a":1.0', '', 'nul', '{"1":}'])('refuses text that is not JSON: %s', (text) => {
    expect(() => readJson(text)).toThrow(SyntaxError);
  });

  it('is kept of the tools and messages of a body, however large', async () => {
    const tools = '[{"type":"function","function":{"parameters":{"z":0.0,"2024":1,"10":2}}}]';
    const body = (filler: string): Buffer =>
      Buffer.from(`{"temperature":1.0,"messages":[{"role":"user","content":"${filler}"}],"tools":${tools},"n":1}`);
    const small = parseJsonBody(body('é "'.replaceAll('"', '\\"'))).value as { readonly tools: unknown };
    expect(writeJson(small.tools)).toBe(tools);
    const large = await parseLargeJsonBody(body('x'.repeat(2_000_000)), async () => undefined);
    expect(writeJson((large.value as { readonly tools: unknown }).tools)).toBe(tools);
  });

  it.each([
    ['plain text', 'word '],
    ['many quotes', '\\"'],
    ['characters of many bytes', '\u{1f600}'],
  ])('lets others have their turn while it looks for the end of a long text: %s', async (_, piece) => {
    const text = piece.repeat(Math.ceil(4_000_000 / Buffer.byteLength(piece)));
    const body = Buffer.from(`{"messages":[{"role":"user","content":"${text}"}],"tools":[{"n":1.0}]}`);
    let turns = 0;
    await parseLargeJsonBody(body, async () => void turns++);
    const slices = Math.floor(body.length / (64 * 1024));
    expect(turns).toBeGreaterThan(2 * slices); // it is read once, and looked at once more
  });

  it.each(['{"a":["x","y\\\\"],"input":[{"n":1.0}]}', '{"a":{"input":[[{"n":2.0}]]},"input":[{"n":1.0}]}'])(
    'is not kept of other members of a body: %s',
    (text) => {
      const { value } = parseJsonBody(Buffer.from(text));
      expect(writeJson((value as { readonly input: unknown }).input)).toBe('[{"n":1.0}]');
      expect(writeJson(value)).not.toContain('2.0');
    },
  );
});
