import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson, writeJsonObject } from '../json-scan.ts';
import { numberToJson } from '../python-literal.ts';
import { collectUntil } from '../scan.ts';

const HEAD = /^\s*call:([^\s{}[\]<>",:]+)\s*(?=\{)/;
const KEY = /[\p{L}\p{N}\p{M}_.$@-]+/uy;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=\s*[,}\]])/y;
/** Text in JSON's quotes. */
const QUOTED = /"(?:[^"\\]|\\.)*"/y;
/** Text without quotes. */
const BARE = /[^\s,{}[\]<"'=][^,{}[\]<"'\n=]*(?=[,}\]])/y;
const WORD = /(true|false|null|none|nil)(?=\s*[,}\]])/iy;
const DEPTH_MAX = 64;

/** Tokens of one generation of models. */
interface GemmaTokens {
  readonly call: string;
  readonly callEnd: string;
  /** Token on each side of a string. */
  readonly quote: string;
}

/**
 * Creates a format of calls such as `call:NAME{key:<|"|>text<|"|>,n:1}` between two tokens; a call is shown when it is
 * complete. A call with unreadable arguments is text. The first end marker ends the call, even inside a string; it may
 * be missing at the end of the text.
 */
function gemma({ call, callEnd, quote }: GemmaTokens): ToolCallFormat {
  const prose = new Markers([call, callEnd]);
  return {
    newId: prefixedUuid,
    keepsSpecialTokens: true,
    callTokens: [call],
    finder: () => prose,
    *read(start, source, calls) {
      if (start === callEnd) return 'markup';
      source.record(call);
      const { text, marker } = yield* collectUntil(source, prose);
      if (marker === call) source.unread(call);
      const head = HEAD.exec(text);
      const json = head === null ? undefined : readArguments(text.slice(head[0].length).trimEnd(), quote);
      if (head !== null && json !== undefined) {
        calls.whole(head[1] as string, json);
        return 'markup';
      }
      calls.content(source.takeRecord());
      return 'text';
    },
  };
}

export const gemma4: ToolCallFormat = gemma({ call: '<|tool_call>', callEnd: '<tool_call|>', quote: '<|"|>' });
export const functionGemma: ToolCallFormat = gemma({
  call: '<start_function_call>',
  callEnd: '<end_function_call>',
  quote: '<escape>',
});

/** Returns the arguments as JSON; undefined if they cannot be read. */
function readArguments(body: string, quote: string): string | undefined {
  const value = new GemmaReader(body, quote).readObject(1, 0);
  return value?.end === body.length ? value.json : compactJson(body);
}

interface GemmaValue {
  readonly json: string;
  readonly end: number;
}

/** Reader of values; each method begins at a position and returns undefined if no value is there. */
class GemmaReader {
  readonly #text: string;
  readonly #quote: string;

  constructor(text: string, quote: string) {
    this.#text = text;
    this.#quote = quote;
  }

  readObject(from: number, depth: number): GemmaValue | undefined {
    const members = new Map<string, string>();
    let at = this.#skip(from);
    while (this.#text[at] !== '}') {
      const key = this.#readKey(at);
      const value = key && this.#readValue(key.end, depth + 1);
      if (key === undefined || value === undefined) return undefined;
      members.set(key.name, value.json);
      at = this.#skip(value.end);
      if (this.#text[at] === ',') at = this.#skip(at + 1);
      else if (this.#text[at] !== '}') return undefined;
    }
    return { json: writeJsonObject(members), end: at + 1 };
  }

  /** Reads a key, which may be quoted in any way, and the colon after it. */
  #readKey(from: number): { readonly name: string; readonly end: number } | undefined {
    KEY.lastIndex = this.#skipQuote(from);
    const name = KEY.exec(this.#text)?.[0];
    if (name === undefined) return undefined;
    const colon = this.#skip(this.#skipQuote(KEY.lastIndex));
    return this.#text[colon] === ':' ? { name, end: this.#skip(colon + 1) } : undefined;
  }

  #readList(from: number, depth: number): GemmaValue | undefined {
    const items: string[] = [];
    let at = this.#skip(from);
    while (this.#text[at] !== ']') {
      const item = this.#readValue(at, depth + 1);
      if (item === undefined) return undefined;
      items.push(item.json);
      at = this.#skip(item.end);
      if (this.#text[at] === ',') at = this.#skip(at + 1);
      else if (this.#text[at] !== ']') return undefined;
    }
    return { json: `[${items.join(',')}]`, end: at + 1 };
  }

  #readValue(at: number, depth: number): GemmaValue | undefined {
    const text = this.#text;
    if (depth > DEPTH_MAX) return undefined;
    if (text[at] === '{') return this.readObject(at + 1, depth);
    if (text[at] === '[') return this.#readList(at + 1, depth);
    if (text.startsWith(this.#quote, at)) {
      const from = at + this.#quote.length;
      const end = text.indexOf(this.#quote, from);
      if (end < 0) return undefined;
      return { json: JSON.stringify(text.slice(from, end)), end: end + this.#quote.length };
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

  #skipQuote(at: number): number {
    const quote = [this.#quote, '"', "'"].find((one) => this.#text.startsWith(one, at));
    return at + (quote?.length ?? 0);
  }

  #skip(from: number): number {
    let at = from;
    while (/\s/.test(this.#text[at] ?? '')) at++;
    return at;
  }
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
