import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../shared/errors/index.ts';
import {
  type JsonBody,
  parseCompletionsBody,
  parseJsonBody,
  parseLargeJsonBody,
} from '../../../shared/protocol/index.ts';
import { JsonReader, type PieceSizes } from '../../../shared/protocol/json/json-reader.ts';
import { scanRoot } from '../../../shared/protocol/json/json-scan.ts';

const parse = (text: string) => parseJsonBody(Buffer.from(text));

describe('parseJsonBody', () => {
  it('escapes raw control bytes inside strings', () => {
    const body = parse('{"a":"x\ny\u0001","b":1}');
    expect(body).toEqual({ value: { a: 'x\ny\u0001', b: 1 } });
  });

  it.each([
    ['bytes that begin no character', [0xff]],
    ['half a character', [0xc3]],
    ['a character in a longer form than it has', [0xc0, 0x80]],
    ['half of a surrogate pair', [0xed, 0xa0, 0x80]],
    ['a character beyond the last', [0xf4, 0x90, 0x80, 0x80]],
    ['text of Latin-1', [...Buffer.from('caf\u00e9', 'latin1')]],
  ])('refuses %s inside a string, in a short body and a long one', async (_, bad) => {
    const refused = expect.objectContaining({ code: 'invalid_json', message: expect.stringContaining('UTF-8') });
    for (const room of ['', ' '.repeat(800_000)]) {
      const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bad), Buffer.from(`"${room}}`)]);
      expect(() => parseJsonBody(body)).toThrow(refused);
      await expect(parseLargeJsonBody(body, async () => {})).rejects.toEqual(refused);
    }
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
    ['a repeated root key', '{"a":1,"b":2,"a":3}', 'invalid_value'],
    ['a repeated root key in another spelling', '{"ab":1,"a\\u0062":3}', 'invalid_value'],
  ])('refuses %s', (_what, text, code) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code }));
  });

  it.each([
    ['cut off', '{"a":"x\\ud83d"}', { a: 'x\ufffd' }],
    ['before another character', '{"a":"\\uD83D\\u2026"}', { a: '\ufffd\u2026' }],
    ['twice', '{"a":"\\ud83d\\ud83d\\ude00"}', { a: '\ufffd\u{1f600}' }],
    ['the second half first', '{"a":"\\ude00\\ud83d"}', { a: '\ufffd\ufffd' }],
    ['in a key', '{"a":{"\\uDFFF":1}}', { a: { '\ufffd': 1 } }],
    ['beside its name in letters', '{"a":"\\\\ud83d \\ud83d"}', { a: '\\ud83d \ufffd' }],
    ['beside a raw control byte', '{"a":"\t\\ud83d"}', { a: '\t\ufffd' }],
  ])('reads half of an emoji as U+FFFD, because it would fail every later turn: %s', async (_what, text, value) => {
    expect(parse(text).value).toEqual(value);
    const large = Buffer.from(text.replace('{', `{${' '.repeat(800_000)}`));
    expect((await parseLargeJsonBody(large, async () => {})).value).toEqual(value);
  });

  it('replaces halves as UTF-8 does, wherever they are', () => {
    const unit = fc.constantFrom('\ud83d', '\ude00', 'a', '\\', '"', '\n', 'u', '\u{1f600}', '\ufffd');
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 12 }), (units) => {
        const text = units.join('');
        expect(parse(JSON.stringify({ a: text })).value).toEqual({ a: Buffer.from(text).toString() });
      }),
    );
  });

  it('accepts escaped pairs and repeated keys below the root', () => {
    expect(parse('{"a":"\\ud83d\\ude00","b":{"c":1,"c":2}}').value).toEqual({ a: '\u{1f600}', b: { c: 2 } });
  });
});

describe('nesting', () => {
  const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

  it('is read down to 127 levels, and refused below', () => {
    expect(() => parse(nested(127))).not.toThrow();
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
      fc.string().map((rest) => `{${rest}`), // anything but an object or a list is not read when it is large
      fc.constant('{"a":1,"a":2}'),
    );
    await fc.assert(
      fc.asyncProperty(text, async (body) => {
        const bytes = Buffer.from(body);
        let turns = 0;
        const nextTurn = async (): Promise<void> => void turns++;
        const large = await outcomeOf(() => parseLargeJsonBody(bytes, nextTurn));
        expect(large).toEqual(await outcomeOf(() => parseJsonBody(bytes)));
        expect(turns).toBeGreaterThan(0);
      }),
    );
  });

  async function outcomeOf(read: () => JsonBody | Promise<JsonBody>) {
    try {
      return { body: await read() };
    } catch (error) {
      const { code, param } = error as ServeError; // in which words, is each one's own
      return { code, param };
    }
  }
});

describe('JsonReader', () => {
  const sizes = fc.record({
    runBytes: fc.integer({ min: 1, max: 30 }),
    longStringBytes: fc.integer({ min: 1, max: 30 }),
    sliceBytes: fc.integer({ min: 1, max: 30 }),
  });
  const text = fc
    .tuple(
      fc.oneof(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.array(fc.jsonValue())),
      fc.constantFrom(undefined, 1),
    )
    .map(([value, indent]) => JSON.stringify(value, undefined, indent));

  function read(json: string, pieces: PieceSizes): unknown {
    const steps = new JsonReader(Buffer.from(json), 127, pieces).read();
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value.value;
    }
  }

  it('reads what JSON.parse reads, in pieces of any size', () => {
    fc.assert(
      fc.property(text, sizes, (json, pieces) => {
        expect(JSON.stringify(read(json, pieces))).toBe(JSON.stringify(JSON.parse(json)));
      }),
      { numRuns: 500 },
    );
  });

  it('refuses what JSON.parse refuses, wherever something was put in, left out or changed', () => {
    const inserted = fc.constantFrom(
      '',
      ',',
      ':',
      '"',
      '\\',
      '{',
      '}',
      '[',
      ']',
      ' ',
      '1',
      '-',
      'null',
      '\n',
      '\u00e9',
      '[]',
      '{}',
      ',,',
      '.',
    );
    fc.assert(
      fc.property(text, sizes, fc.nat(), fc.nat(2), inserted, (json, pieces, at, dropped, put) => {
        const from = at % (json.length + 1);
        // By way of bytes, which hold no halves of characters.
        const changed = Buffer.from(json.slice(0, from) + put + json.slice(from + dropped)).toString();
        const outcome = (parseJson: () => unknown) => {
          try {
            return JSON.stringify(parseJson());
          } catch (error) {
            return (error as Error).name;
          }
        };
        const expected = outcome(() => {
          const value: unknown = JSON.parse(changed);
          if (typeof value !== 'object' || value === null) throw new SyntaxError('neither an object nor a list');
          return value;
        });
        expect(outcome(() => read(changed, pieces))).toBe(expected);
      }),
      { numRuns: 3000 },
    );
  });

  it('keeps a key that is called __proto__ a key', () => {
    const value = read('{"__proto__":[1,2,3,4,5,6],"a":{"__proto__":1,"b":2}}', {
      runBytes: 1,
      longStringBytes: 1,
      sliceBytes: 1,
    }) as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'a']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  it.each([
    ['lists', '[],', 'prompt'],
    ['objects', '{},', 'prompt[0]'],
    ['short texts', '"ab",', 'prompt'],
    ['ids of one digit', '1,', 'prompt'],
    ['ids that are not token ids', '-1,', 'prompt[0]'],
  ])('gives up on megabytes of %s, and names the first fault or the field', async (_what, element, param) => {
    const json = `{"model":"m","prompt":[${element.repeat(6_000_000 / element.length)}1]}`;
    let turns = 0;
    const reading = parseLargeJsonBody(Buffer.from(json), async () => void turns++);
    const refused = await reading;
    expect(refused.refusal).toMatchObject({ code: 'request_too_large', param: 'prompt' });
    expect(() => parseCompletionsBody(refused)).toThrow(expect.objectContaining({ param }));
    expect(turns).toBeGreaterThan(1);
  });

  it('reads a million ids, long texts and a long conversation', async () => {
    const value = {
      prompt: Array.from({ length: 1_000_000 }, (_, at) => at),
      text: 'caf\u00e9 "quoted"\n\ud83d\ude00 '.repeat(100_000),
      plain: 'x'.repeat(3_000_000),
      messages: Array.from({ length: 2000 }, (_, at) => ({ role: 'user', content: `${at} `.repeat(100) })),
    };
    const body = await parseLargeJsonBody(Buffer.from(JSON.stringify(value)), async () => {});
    expect(body).toEqual({ value });
  });
});

describe('repairs', () => {
  it('of many raw control bytes take one pass', () => {
    const text = `{"a":"${'line\n'.repeat(90_000)}"}`;
    expect(parse(text)).toMatchObject({ value: { a: 'line\n'.repeat(90_000) } });
  });

  it.each([['control bytes', Buffer.from(`{"a":"${'\n'.repeat(100_001)}"}`)]])(
    'end at a hundred thousand: %s',
    (_what, bytes) => {
      expect(() => parseJsonBody(bytes)).toThrow(expect.objectContaining({ code: 'invalid_json' }));
    },
  );
});

describe('scanRoot', () => {
  it('agrees with JSON.parse on the keys of the root, with any strings', () => {
    const value = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 1, 2), (object, indent) => {
        const text = JSON.stringify(object, undefined, indent);
        const scan = scanRoot(text);
        expect(scan.duplicateKey).toBeUndefined();
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
