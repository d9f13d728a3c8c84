import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type JsonBody, parseJsonBody, parseLargeJsonBody } from '../../../shared/protocol/openai/index.ts';
import { scanRoot } from '../../../shared/protocol/openai/json-scan.ts';

const parse = (text: string) => parseJsonBody(Buffer.from(text));

describe('parseJsonBody', () => {
  it('escapes raw control bytes inside strings and says that it did', () => {
    const body = parse('{"a":"x\ny\u0001","b":1}');
    expect(body).toEqual({ value: { a: 'x\ny\u0001', b: 1 }, isRepaired: true, fractionalKeys: [] });
  });

  it('replaces bytes that are not UTF-8', () => {
    const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff, 0xc3]), Buffer.from('"}')]);
    expect(parseJsonBody(bytes)).toMatchObject({ value: { a: '\ufffd\ufffd' }, isRepaired: true });
  });

  it('reads a view into a larger buffer, and nothing around it', () => {
    const bytes = Buffer.from('xx{"a":1}yy');
    expect(parseJsonBody(bytes.subarray(2, 9)).value).toEqual({ a: 1 });
  });

  it.each([
    ['a byte order mark', '\ufeff{"a":1}', 'invalid_json'],
    ['characters after the body', '{"a":1} x', 'invalid_json'],
    ['a trailing comma', '{"a":1,}', 'invalid_json'],
    ['NaN', '{"a":NaN}', 'invalid_json'],
    ['an empty body', '', 'invalid_json'],
    ['a lone surrogate escape', '{"a":"\\ud800"}', 'invalid_json'],
    ['a lone surrogate escape in a key', '{"a":{"\\uDFFF":1}}', 'invalid_json'],
    ['a repeated root key', '{"a":1,"b":2,"a":3}', 'invalid_value'],
    ['a repeated root key in another spelling', '{"ab":1,"a\\u0062":3}', 'invalid_value'],
  ])('refuses %s', (_what, text, code) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code }));
  });

  it('accepts escaped pairs and repeated keys below the root', () => {
    expect(parse('{"a":"\\ud83d\\ude00","b":{"c":1,"c":2}}').value).toEqual({ a: '\u{1f600}', b: { c: 2 } });
  });

  it('names root numbers written with a fraction or an exponent', () => {
    const text = '{"a":5.0,"b":5e0,"c":5,"d":[1.5],"e":{"f":1.5},"g":"1.5e3","h":true,"i":1E2,"j":-1.5e-3}';
    expect(parse(text).fractionalKeys).toEqual(expect.arrayContaining(['a', 'b', 'i', 'j']));
    expect(new Set(parse(text).fractionalKeys)).toEqual(new Set(['a', 'b', 'i', 'j']));
  });
});

describe('nesting', () => {
  const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

  it('is read down to 127 levels, and refused below', () => {
    expect(parse(nested(127)).fractionalKeys).toEqual([]);
    for (const levels of [128, 100_000]) {
      expect(() => parse(nested(levels))).toThrow(expect.objectContaining({ code: 'invalid_json' }));
    }
  });

  it('of many root keys costs no more than reading them', () => {
    const keys = Array.from({ length: 100_000 }, (_, at) => `"k${at}":0`);
    expect(() => parse(`{${keys.join(',')},"k0":1}`)).toThrow(expect.objectContaining({ param: 'k0' }));
  });
});

describe('a large body', () => {
  it('is read in several turns, to the same end', async () => {
    const value = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    const text = fc.oneof(
      value.map((object) => JSON.stringify(object)),
      fc.string(),
      fc.constant('{"a":1,"a":2}'),
    );
    await fc.assert(
      fc.asyncProperty(text, async (body) => {
        const bytes = Buffer.from(body);
        let turns = 0;
        const nextTurn = async (): Promise<void> => void turns++;
        const large = await outcomeOf(() => parseLargeJsonBody(bytes, nextTurn));
        expect(large).toEqual(await outcomeOf(() => parseJsonBody(bytes)));
        if (large.body !== undefined && !large.body.isRepaired) expect(turns).toBe(3);
      }),
    );
  });

  async function outcomeOf(read: () => JsonBody | Promise<JsonBody>) {
    try {
      return { body: await read() };
    } catch (error) {
      return { error: String(error) };
    }
  }
});

describe('scanRoot', () => {
  it('agrees with JSON.parse on which keys the root has, whatever the strings hold', () => {
    const value = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 1, 2), (object, indent) => {
        const text = JSON.stringify(object, undefined, indent);
        const scan = scanRoot(text);
        expect(scan.duplicateKey).toBeUndefined();
        for (const key of scan.fractionalKeys) expect(typeof object[key]).toBe('number');
      }),
    );
  });

  it('finds a key that was put in twice', () => {
    const key = fc.string({ unit: 'binary', minLength: 1 });
    fc.assert(
      fc.property(key, fc.jsonValue(), fc.jsonValue(), (name, first, second) => {
        const member = (value: unknown) => `${JSON.stringify(name)}:${JSON.stringify(value)}`;
        expect(scanRoot(`{${member(first)},"other key":0,${member(second)}}`).duplicateKey).toBe(name);
      }),
    );
  });
});
