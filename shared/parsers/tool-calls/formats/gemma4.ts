import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson, writeJsonObject } from '../json-scan.ts';
import { numberToJson } from '../python-literal.ts';
import { collectUntil } from '../scan.ts';

const CALL = '<|tool_call>';
const CALL_END = '<tool_call|>';
const QUOTE = '<|"|>';
const PROSE = new Markers([CALL, CALL_END]);
const IN_CALL = new Markers([CALL_END, CALL]);
const HEAD = /^\s*call:([^\s{}[\]<>",:]+)\s*(?=\{)/;
const KEY = /\s*(?:<\|"\|>|"|')?([\p{L}\p{N}\p{M}_.$@-]+)(?:<\|"\|>|"|')?\s*:\s*/uy;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=\s*[,}\]])/y;
/** Text in JSON's quotes. */
const QUOTED = /"(?:[^"\\]|\\.)*"/y;
/** Text without quotes. */
const BARE = /[^\s,{}[\]<"'=][^,{}[\]<"'\n=]*(?=[,}\]])/y;
const WORD = /(true|false|null|none|nil)(?=\s*[,}\]])/iy;
const DEPTH_MAX = 64;

/**
 * Format `<|tool_call>call:NAME{key:<|"|>text<|"|>,n:1}<tool_call|>`; a call is shown when it is complete. A call with
 * unreadable arguments is text. The first end marker ends the call, even inside a string; it may be missing at the end
 * of the text.
 */
export const gemma4: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: [CALL],
  finder: () => PROSE,
  *read(start, source, calls) {
    if (start === CALL_END) return 'markup';
    source.record(CALL);
    const { text, marker } = yield* collectUntil(source, IN_CALL);
    if (marker === CALL) source.unread(CALL);
    const head = HEAD.exec(text);
    const json = head === null ? undefined : readArguments(text.slice(head[0].length).trimEnd());
    if (head !== null && json !== undefined) {
      calls.whole(head[1] as string, json);
      return 'markup';
    }
    calls.content(source.takeRecord());
    return 'text';
  },
};

function readArguments(body: string): string | undefined {
  const value = readObject(body, 1, 0);
  return value?.end === body.length ? value.json : compactJson(body);
}

interface GemmaValue {
  readonly json: string;
  readonly end: number;
}

function readObject(text: string, from: number, depth: number): GemmaValue | undefined {
  const members = new Map<string, string>();
  let at = skip(text, from);
  while (text[at] !== '}') {
    KEY.lastIndex = at;
    const key = KEY.exec(text);
    if (key === null) return undefined;
    const value = readValue(text, KEY.lastIndex, depth + 1);
    if (value === undefined) return undefined;
    members.set(key[1] as string, value.json);
    at = skip(text, value.end);
    if (text[at] === ',') at = skip(text, at + 1);
    else if (text[at] !== '}') return undefined;
  }
  return { json: writeJsonObject(members), end: at + 1 };
}

function readList(text: string, from: number, depth: number): GemmaValue | undefined {
  const items: string[] = [];
  let at = skip(text, from);
  while (text[at] !== ']') {
    const item = readValue(text, at, depth + 1);
    if (item === undefined) return undefined;
    items.push(item.json);
    at = skip(text, item.end);
    if (text[at] === ',') at = skip(text, at + 1);
    else if (text[at] !== ']') return undefined;
  }
  return { json: `[${items.join(',')}]`, end: at + 1 };
}

function readValue(text: string, at: number, depth: number): GemmaValue | undefined {
  if (depth > DEPTH_MAX) return undefined;
  if (text[at] === '{') return readObject(text, at + 1, depth);
  if (text[at] === '[') return readList(text, at + 1, depth);
  if (text.startsWith(QUOTE, at)) {
    const end = text.indexOf(QUOTE, at + QUOTE.length);
    if (end < 0) return undefined;
    return { json: JSON.stringify(text.slice(at + QUOTE.length, end)), end: end + QUOTE.length };
  }
  if (text[at] === ',' || text[at] === '}') return { json: '""', end: at };
  NUMBER.lastIndex = at;
  const number = NUMBER.exec(text)?.[0];
  if (number !== undefined) return { json: numberToJson(number) ?? 'null', end: at + number.length };
  WORD.lastIndex = at;
  const word = WORD.exec(text)?.[0];
  if (word === undefined) return readBare(text, at);
  const lower = word.toLowerCase();
  return { json: lower === 'true' || lower === 'false' ? lower : 'null', end: at + word.length };
}

/** Reads a text in double quotes or without quotes, as JSON or other models write it. */
function readBare(text: string, at: number): GemmaValue | undefined {
  const quoted = text[at] === '"' ? QUOTED : BARE;
  quoted.lastIndex = at;
  const found = quoted.exec(text)?.[0];
  if (found === undefined) return undefined;
  const json = quoted === QUOTED ? compactJson(found) : JSON.stringify(found.trimEnd());
  return json === undefined ? undefined : { json, end: at + found.length };
}

function skip(text: string, from: number): number {
  let at = from;
  while (/\s/.test(text[at] ?? '')) at++;
  return at;
}
