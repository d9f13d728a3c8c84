import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyCut, declare, readCalls } from './read-calls.ts';
import { CALL_TEXTS, type WantedCall, type WantedValue } from './write-calls.ts';

const character = fc.constantFrom(
  ...'abz09_ .,:;!?()[]{}"\'\\/<>&=|-+*#@~^%$'.split(''),
  '\n',
  'é',
  '日',
  '😀',
  '&lt;',
);
const words = fc
  .array(character, { maxLength: 12 })
  .map((parts) => parts.join('').trim())
  .filter((text) => text.toLowerCase() !== 'null');
/** Texts that look like the markup around them, where a format can tell the two apart. */
const markupInside = fc.constantFrom(
  '</tool_call>',
  '<|tool_calls_section_end|>',
  '[/TOOL_CALLS]',
  '<｜tool▁call▁end｜>',
);
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,9}$/).filter((text) => !['true', 'false', 'null'].includes(text));
const prose = fc.constantFrom('', 'Let me look. ', 'A\nB', 'I think: ');

const TELLS_STRINGS = new Set(
  'hermes qwen25 nemotron_deci llama3_json mistral phi4 jamba default deepseek_v3 deepseek_v3_1 kimi_k2 harmony inkling granite internlm longcat cohere_command4 apertus gigachat3 xlam granite_20b_fc plamo3'.split(
    ' ',
  ),
);
/** Values that begin like JSON are read as JSON whatever the schema says. */
const GUESSES_JSON = new Set(['glm47']);

function wantedCalls(format: string): fc.Arbitrary<readonly WantedCall[]> {
  const text = TELLS_STRINGS.has(format) ? fc.oneof(words, markupInside) : words;
  const safe = GUESSES_JSON.has(format) ? text.filter((one) => !/^[{["]/.test(one)) : text;
  const scalar = fc.oneof(safe, fc.integer());
  // A list of one length at least, as an empty tag says nothing of its type.
  const value: fc.Arbitrary<WantedValue> = fc.oneof(scalar, fc.array(fc.integer(), { minLength: 1, maxLength: 3 }));
  const args = fc.dictionary(name, value, { maxKeys: 4, noNullPrototype: true });
  return fc.uniqueArray(fc.record({ name, args }), { minLength: 1, maxLength: 3, selector: (call) => call.name });
}

function schemaOf(value: WantedValue): Readonly<Record<string, unknown>> {
  if (typeof value === 'object') return { type: 'array', items: { type: 'integer' } };
  return { type: typeof value === 'string' ? 'string' : 'integer' };
}

describe.each(Object.entries(CALL_TEXTS))('%s', (format, write) => {
  const message = fc
    .record({ before: prose, calls: wantedCalls(format) })
    .map((wanted) => ({ ...wanted, text: wanted.before + write(wanted.calls) }))
    .chain((wanted) => anyCut(wanted.text).map((pieces) => ({ ...wanted, pieces })));

  it('gives back the calls that a model wrote, and the prose in front of them', () => {
    fc.assert(
      fc.property(message, ({ before, calls, pieces }) => {
        const schemas = calls.map((call) => [
          call.name,
          Object.fromEntries(Object.entries(call.args).map(([key, value]) => [key, schemaOf(value)])),
        ]);
        const read = readCalls(format, pieces, { tools: declare(Object.fromEntries(schemas)) });
        expect(read.content).toBe(before);
        expect(read.calls.map((call) => ({ name: call.name, args: JSON.parse(call.arguments) }))).toEqual(calls);
        expect(read.reason).toBe('tool_calls');
        expect(new Set(read.calls.map((call) => call.id)).size).toBe(calls.length);
      }),
      { numRuns: 200 },
    );
  });
});
