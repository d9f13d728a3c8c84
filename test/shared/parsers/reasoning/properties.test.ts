import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { REASONING_FORMATS } from '../../../../shared/parsers/reasoning/formats.ts';
import { NAIVE_FORMATS, splitNaively } from './naive-model.ts';
import { anySplit, cut, runParser, runSteps } from './run-parser.ts';

const NAMES = REASONING_FORMATS.map((format) => format.name);
const MARKERS = [
  ...Object.values(NAIVE_FORMATS).flatMap(({ open, close, exits = [], framing = [] }) => [
    ...open,
    ...close,
    ...exits,
    ...framing,
  ]),
  ...['<|start|>', '<|end|>', '<|return|>', '<|call|>', '<|channel|>', '<|message|>', '<|constrain|>'],
  ...['<|message_model|>', '<|content_thinking|>', '<|content_text|>', '<|content_invoke_tool_json|>'],
  ...['<|end_message|>', '<|content_model_end_sampling|>'],
];
const WORDS = [
  'thought\n',
  'analysis',
  'final',
  'commentary',
  ' to=functions.f',
  'to=',
  'assistant',
  ' json',
  '{"a":"',
];
const CHARS = ['a', ' ', '\n', '<', '|', '>', '[', ']', '"', '\\', '/', 'H', '◁', '🙂', '\ud83d'];

/** Text of markers, markers cut short and everything between; of one format's markers alone when `markers` is given. */
function anyText(markers: readonly string[] = MARKERS): fc.Arbitrary<string> {
  const marker = fc.constantFrom(...markers);
  const cutMarker = fc.tuple(marker, fc.nat(30), fc.nat(30)).map(([text, from, to]) => text.slice(from % 3, to));
  return fc
    .array(
      fc.oneof(
        { weight: 4, arbitrary: marker },
        { weight: 2, arbitrary: cutMarker },
        { weight: 2, arbitrary: fc.constantFrom(...WORDS) },
        { weight: 3, arbitrary: fc.constantFrom(...CHARS) },
      ),
      { maxLength: 14 },
    )
    .map((parts) => parts.join(''));
}

const withSplit = (text: fc.Arbitrary<string>): fc.Arbitrary<readonly [string, string[]]> =>
  text.chain((whole) => anySplit(whole).map((pieces) => [whole, pieces] as const));

describe.each(Object.entries(NAIVE_FORMATS))('%s', (name, naive) => {
  const { open, close, exits = [], framing = [] } = naive;
  const text = fc.oneof(anyText([...open, ...close, ...exits, ...framing]), anyText());

  it('takes any text apart as a model that sees it whole', () => {
    fc.assert(
      fc.property(withSplit(text), ([whole, pieces]) => {
        const expected = splitNaively(naive, whole);
        expect(runParser(name, [whole])).toEqual(expected);
        expect(runParser(name, pieces)).toEqual(expected);
        expect(runParser(name, cut(whole, 1))).toEqual(expected);
      }),
      { numRuns: 400 },
    );
  });
});

describe.each(NAMES)('%s', (name) => {
  const start = fc.constantFrom('', ...REASONING_FORMATS.find((format) => format.name === name)!.promptOpeners);

  it('gives the same result however the text is cut, and never takes back what it gave', () => {
    fc.assert(
      fc.property(withSplit(anyText()), start, ([whole, pieces], promptText) => {
        const steps = runSteps(name, pieces, { promptText });
        const last = steps.at(-1)!;
        expect(last).toEqual(runParser(name, [whole], { promptText }));
        expect(last).toEqual(runParser(name, cut(whole, 1), { promptText }));
        for (const step of steps) {
          expect(last.reasoning.startsWith(step.reasoning)).toBe(true);
          expect(last.content.startsWith(step.content)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('gives at the end of a text what the same text gave on its way to a longer one, and what it held back', () => {
    fc.assert(
      fc.property(anyText(), fc.nat(), (whole, at) => {
        const prefix = whole.slice(0, at % (whole.length + 1));
        const onTheWay = runSteps(name, [prefix]).at(0)!;
        const atTheEnd = runParser(name, [prefix]);
        const later = runParser(name, [whole]);
        expect(atTheEnd.reasoning.startsWith(onTheWay.reasoning)).toBe(true);
        expect(atTheEnd.content.startsWith(onTheWay.content)).toBe(true);
        expect(later.reasoning.startsWith(onTheWay.reasoning)).toBe(true);
        expect(later.content.startsWith(onTheWay.content)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it('takes random bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.integer({ min: 1, max: 9 }), (bytes, units) => {
        const text = Buffer.from(bytes).toString('utf8');
        expect(runParser(name, cut(text, units))).toEqual(runParser(name, [text]));
      }),
      { numRuns: 100 },
    );
  });

  it('shows text without markers at once and whole', () => {
    const [{ reasoning, content } = { reasoning: '', content: '' }] = runSteps(name, ['Oslo is a city, and so on']);
    expect(`${reasoning}${content}`.replace('<think>', '')).toBe('Oslo is a city, and so on');
  });
});
