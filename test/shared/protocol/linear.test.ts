import { describe, expect, it } from 'vitest';
import { SseParser } from '../../../shared/engines/http/sse-parser.ts';
import { decodeChat, parseChatBody } from '../../../shared/protocol/index.ts';
import { JsonReader } from '../../../shared/protocol/json/json-reader.ts';
import { repairJson } from '../../../shared/protocol/json/json-scan.ts';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import type { Tokenizer } from '../../../shared/tokens/index.ts';
import { countNativeScans } from '../../support/count-native-scans.ts';
import { takeSteps } from '../../support/count-steps.ts';
import { builtinTokenizer } from '../../support/tokens/variants.ts';
import { contextWith } from './decode-context.ts';

const SMALL = 2000;
const TIMES = [1, 2, 4, 8];
const GROWTH_MAX = 1.15;

type Read = (repeated: string, length: number) => void;

const readAll = (steps: Generator<void, unknown>): void => {
  while (!steps.next().done);
};

function sse(width: number): Read {
  return (repeated, length) => {
    const bytes = Buffer.from(repeated.repeat(Math.ceil(length / repeated.length)));
    const parser = new SseParser(() => {});
    for (let at = 0; at < bytes.length; at += width) parser.push(bytes.subarray(at, at + width));
    parser.end();
  };
}

const json: Read = (repeated, length) => {
  const text = `{"model":"m","a":[${repeated.repeat(Math.ceil(length / repeated.length))}0]}`;
  try {
    readAll(new JsonReader(Buffer.from(text), 64).read());
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
};

const repair: Read = (repeated, length) => {
  const text = Buffer.from(`{"a":"${repeated.repeat(Math.ceil(length / repeated.length))}"}`, 'latin1');
  readAll(repairJson(text));
};

const given = createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(builtinTokenizer())))) as Tokenizer; // byte-level
const detokenize: Read = (repeated, length) => {
  const ids = given.encode(repeated.repeat(Math.ceil(length / repeated.length)));
  const detokenizer = given.createDetokenizer([]);
  for (const id of ids) detokenizer.push(id);
  detokenizer.flush();
};

/** A turn of many calls and their results, a call for every ten characters. @param id a # in it stands for the number of the call */
const history: Read = (id, length) => {
  const ids = Array.from({ length: length / 10 }, (_, at) => id.replace('#', String(at)));
  const calls = ids.map((given) => ({ id: given, function: { name: 'f', arguments: '{}' } }));
  const results = ids.map((given) => ({ role: 'tool', tool_call_id: given, content: 'r' }));
  const messages = [{ role: 'user', content: 'hi' }, { role: 'assistant', tool_calls: calls }, ...results];
  decodeChat(parseChatBody({ value: { model: 'm', messages } }), contextWith());
};

const READERS: readonly (readonly [name: string, read: Read, repeated: readonly string[]])[] = [
  [
    'server-sent events',
    sse(64),
    ['data: {"a":1}\n\n', '\n', '\r\n', 'data: a\n', ': b\r', 'data', 'event: x\ndata: y\r\n\r\n'],
  ],
  ['events that come by bytes', sse(1), ['data: a\n\n', '\r\n', 'data: a\n', 'é']],
  [
    'large JSON bodies, and what they take',
    json,
    ['1,', '{},', '"a",', '{"a":[', '"\\\\"', '{"a":1,"b":2},', '"\\u00e9",'],
  ],
  ['JSON that is repaired', repair, ['\n', '\xff', '\\"', 'é', '\\n\t']],
  ['results of calls', history, ['call_#', 'call', '']],
  ['tokens that become text', detokenize, ['word ', 'é', '😀', '\n', 'aaaaaaaa']],
];

describe.each(READERS)('%s', (_name, read, repeated) => {
  it.each(repeated)('cost in proportion to their length: %j', async (piece) => {
    read(piece, SMALL * 8); // what is done once a process does not count
    await takeSteps();
    const costs: number[] = [];
    for (const times of TIMES) costs.push(countNativeScans(() => read(piece, SMALL * times)) + (await takeSteps()));
    const growth = costs.map((cost, at) => cost / (costs[0] as number) / (TIMES[at] as number));
    expect(Math.max(...growth), costs.join(', ')).toBeLessThan(GROWTH_MAX);
  });
});
