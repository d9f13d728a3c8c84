import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../../shared/clock/index.ts';
import { TOOL_CALL_PARSER_SPELLINGS } from '../../../shared/config/index.ts';
import { createReasoningParser, createToolCallParser, planReasoning } from '../../../shared/parsers/index.ts';
import { REASONING_FORMATS } from '../../../shared/parsers/reasoning/formats.ts';
import { TOOL_CALL_PARSER_NAMES } from '../../../shared/parsers/tool-calls/registry.ts';
import type { ToolChoice, ToolDefinition } from '../../../shared/protocol/index.ts';
import { countNativeScans } from '../../support/count-native-scans.ts';
import { takeSteps } from '../../support/count-steps.ts';
import { type ParserRow, readParserRows } from '../../support/parsers-conformance.ts';

const SMALL_CHARACTERS = 240;
const TIMES = 4;
/** 2.3 for each doubling. */
const GROWTH_MAX = 2.3 ** 2;

const read = (file: string): readonly ParserRow[] =>
  readParserRows(fileURLToPath(new URL(`../../fixtures/parsers/${file}`, import.meta.url)));
const toolRows = [...read('tool.jsonl'), ...read('tool-cases.jsonl')];
const reasoningRows = read('reasoning.jsonl');
/** Each once, by its own name. */
const NAMES = TOOL_CALL_PARSER_NAMES.filter((name) => !Object.hasOwn(TOOL_CALL_PARSER_SPELLINGS, name));
const TOOLS: readonly ToolDefinition[] = [
  { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } } },
];

/** What is hard on a reader in any format. */
const ANYWHERE = [
  ...[
    '[',
    '{',
    '"',
    '\\',
    ' ',
    '\n',
    '1',
    'a',
    ',',
    '[a',
    '[f(',
    '[f(a=1), ',
    '{"a":',
    '\\"',
    '\'"',
    '</',
    '<|',
    '&am',
  ],
  ...['</think>\n<', '{"name":"f","arguments":{'],
];
/** What may stand before it: the beginnings of a list, a string and a name. */
const HEADS = ['[', '{"a":"'];
/** Marker texts in what a model was seen to write. */
const MARKER = /<[^<>\s]{1,60}>?|\[\/?[A-Z_]{2,}\]?|\]<\]|◁\/?\w+▷|functools|```(?:json)?|Here's my/g;

/** Inputs of a format, as texts to repeat behind a text: its own markers whole, nearly whole and between others. */
function attacksOn(texts: readonly string[]): readonly (readonly [head: string, repeated: string])[] {
  const markers = [...new Set(texts.flatMap((text) => text.match(MARKER) ?? []))].slice(0, 5);
  const longest = texts.toSorted((a, b) => b.length - a.length)[0] ?? '';
  const half = longest.slice(0, Math.floor(longest.length * 0.6));
  return [
    ...markers.flatMap((marker) => [`${marker} `, marker.slice(0, -1)].map((repeated) => ['', repeated] as const)),
    ...[half, `${longest}\n`, ...ANYWHERE].map((repeated) => ['', repeated] as const),
    ...[...HEADS, half].flatMap((head) => ANYWHERE.slice(0, 9).map((repeated) => [head, repeated] as const)),
  ].filter(([, repeated]) => repeated !== '');
}

const CUTS: Readonly<Record<string, number>> = { whole: Number.POSITIVE_INFINITY, 'by characters': 1, 'by tokens': 4 };

function cut(text: string, width: number): readonly string[] {
  if (width === Number.POSITIVE_INFINITY) return [text];
  return Array.from({ length: Math.ceil(text.length / width) }, (_, at) => text.slice(at * width, (at + 1) * width));
}

type Attacks = ReturnType<typeof attacksOn>;

/** Counting is dear and most attacks are linear: so many are counted together, and by themselves where they may not be. */
const TOGETHER = 8;
/** What is repeated less often than that grows in steps, which would hide another's growth. */
const REPEATED_CHARACTERS_MAX = SMALL_CHARACTERS / 8;

/** Inputs that cost more than in proportion to their length. */
async function findSuperlinear(
  attacks: Attacks,
  parse: (pieces: readonly string[]) => void,
  cuts = Object.keys(CUTS),
): Promise<readonly string[]> {
  const found: string[] = [];
  await takeSteps();
  for (const cutName of cuts) {
    const width = CUTS[cutName] as number;
    const growthOf = async (group: Attacks): Promise<number> => {
      const costOf = async (length: number): Promise<number> => {
        const texts = group.map(([head, repeated]) => head + repeated.repeat(Math.ceil(length / repeated.length)));
        const scanned = countNativeScans(() => {
          for (const text of texts) parse(cut(text, width));
        });
        return scanned + (await takeSteps());
      };
      const least = await costOf(SMALL_CHARACTERS);
      return (await costOf(SMALL_CHARACTERS * TIMES)) / least;
    };
    for (const group of together(attacks)) {
      if (group.length > 1 && (await growthOf(group)) <= TIMES) continue;
      for (const attack of group) {
        const growth = await growthOf([attack]);
        if (growth > GROWTH_MAX) found.push(`${cutName}: ${JSON.stringify(attack)} grows ${growth.toFixed(1)}`);
      }
    }
  }
  return found;
}

function together(attacks: Attacks): readonly Attacks[] {
  const isShort = ([, repeated]: Attacks[number]): boolean => repeated.length <= REPEATED_CHARACTERS_MAX;
  const short = attacks.filter(isShort);
  const groups = Array.from({ length: Math.ceil(short.length / TOGETHER) }, (_, at) =>
    short.slice(at * TOGETHER, (at + 1) * TOGETHER),
  );
  return [...groups, ...attacks.filter((attack) => !isShort(attack)).map((attack) => [attack])];
}

const NO_TOOL_SINK = { content: () => {}, callStart: () => {}, callArguments: () => {} };
const NO_REASONING_SINK = { content: () => {}, reasoning: () => {} };

describe.each(NAMES)('tool-call parser %s', (name) => {
  const rows = toolRows.filter((row) => row.parser === name);
  it.each<ToolChoice>(['auto', 'required'])(
    'reads in proportion to the text, tool choice %s',
    async (toolChoice) => {
      const attacks = attacksOn(rows.map(({ text }) => text));
      const parse = (pieces: readonly string[]): void => {
        const parser = createToolCallParser(name, { tools: TOOLS, toolChoice, random: systemRandom });
        for (const piece of pieces) parser?.push(piece, NO_TOOL_SINK);
        parser?.end('stop', NO_TOOL_SINK);
      };
      const cuts = toolChoice === 'auto' ? Object.keys(CUTS) : ['whole'];
      expect(await findSuperlinear(attacks, parse, cuts)).toEqual([]);
    },
    60_000,
  );
});

/** One of each grammar. */
const GRAMMARS = [...new Map(REASONING_FORMATS.map((format) => [format.grammar, format])).values()];

describe.each(GRAMMARS)('reasoning parser $name', (format) => {
  const rows = reasoningRows.filter((row) => row.reasoning_parser === format.name || row.parser === format.name);
  it('reads in proportion to the text', async () => {
    const attacks = attacksOn([format.markers.join('a'), ...rows.map(({ text }) => text)]);
    const plan = planReasoning(format, { promptText: '', templateArgs: { thinking: true } });
    const parse = (pieces: readonly string[]): void => {
      const parser = plan && createReasoningParser(plan);
      for (const piece of pieces) parser?.push(piece, NO_REASONING_SINK);
      parser?.end(NO_REASONING_SINK);
    };
    expect(await findSuperlinear(attacks, parse)).toEqual([]);
  }, 60_000);
});
