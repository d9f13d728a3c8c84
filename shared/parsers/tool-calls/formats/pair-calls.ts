import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ParameterSchema, ToolSchemas } from '../parameter-schema.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, readUntil, type TextSource } from '../scan.ts';

/** Tags of calls whose arguments are pairs of a key and a value. */
interface PairTexts {
  readonly call: string;
  readonly callEnd: string;
  readonly key: string;
  /** End of a key; without it, the start of the value ends the key. */
  readonly keyEnd?: string;
  readonly value: string;
  readonly valueEnd: string;
  /** End of the block around calls, which also ends a call. */
  readonly blockEnd?: string;
  /** Whether the tags are tokens of the models: then another tag ends a value that has no end. @default false */
  readonly areTokens?: boolean;
}

/** Tags with their markers compiled. */
export interface PairTags extends PairTexts {
  readonly inCall: Markers;
  readonly inKey: Markers;
  readonly inValue: Markers;
}

export function pairTags(texts: PairTexts): PairTags {
  const { call, callEnd, key, keyEnd, value, valueEnd, blockEnd, areTokens = false } = texts;
  const ends = blockEnd === undefined ? [callEnd, call] : [callEnd, call, blockEnd];
  return {
    ...texts,
    inCall: new Markers([key, ...ends]),
    inKey: new Markers([...(keyEnd === undefined ? [] : [keyEnd]), value, ...ends]),
    inValue: new Markers(areTokens ? [valueEnd, key, ...ends] : [valueEnd]),
  };
}

/** Returns whether a text can be the name of a tool. */
export function isName(text: string): boolean {
  return /^[^\s<>{}[\]"]+$/.test(text);
}

/** Call whose name was read, with the marker after the name. */
export interface NamedCall {
  readonly name: string;
  readonly first: string | undefined;
}

/** Converts the text of a value that is not only a string to JSON. */
type ConvertValue = (text: string, schema: ParameterSchema | undefined) => string;

/** Reads a key and the tag that opens its value. */
export function* readKey(tags: PairTags, source: TextSource): Parsing<string | undefined> {
  const { text, marker } = yield* collectUntil(source, tags.inKey);
  if (marker === tags.call) source.unread(tags.call);
  if (marker === tags.value) return text.trim();
  if (marker === undefined || marker !== tags.keyEnd) return undefined;
  return (yield* readOneOfBehindSpace(source, [tags.value])) === undefined ? undefined : text.trim();
}

/**
 * Reads the pairs of a call, including its end: strings go out as they arrive, each other value as a whole. Text that
 * is not a call stays in the record.
 */
export class PairStream {
  readonly #tags: PairTags;
  readonly #source: TextSource;
  readonly #calls: CallWriter;
  readonly #tools: ToolSchemas;
  readonly #convert: ConvertValue;

  constructor(tags: PairTags, source: TextSource, calls: CallWriter, tools: ToolSchemas, convert: ConvertValue) {
    this.#tags = tags;
    this.#source = source;
    this.#calls = calls;
    this.#tools = tools;
    this.#convert = convert;
  }

  *read({ name, first }: NamedCall): Parsing {
    const { key: keyTag, valueEnd, callEnd, inCall } = this.#tags;
    const writer = new ArgumentsWriter(this.#calls, name);
    let stray = '';
    let stop = first;
    while (stop === keyTag) {
      const key = yield* readKey(this.#tags, this.#source);
      if (key === undefined) return;
      stop = yield* this.#readValue(name, key, writer);
      if (stop !== valueEnd) continue;
      const between = yield* collectUntil(this.#source, inCall);
      if (between.text.trim() !== '') stray += between.text;
      stop = between.marker;
    }
    const isBegun = !this.#source.isRecording;
    if (stop === callEnd || (stop !== undefined && isBegun)) writer.close();
    if (!this.#source.isRecording) this.#calls.content(stray);
    if (stop !== undefined && stop !== callEnd) this.#source.unread(stop);
  }

  /** Reads a value and returns the marker that ended it. */
  *#readValue(tool: string, key: string, writer: ArgumentsWriter): Parsing<string | undefined> {
    const { inValue } = this.#tags;
    const tools = this.#tools;
    if (writer.has(key)) return yield* readUntil(this.#source, inValue);
    const schema = tools.parameter(tool, key);
    if (schema?.isOnly('string') === true) {
      const member = new StringMember(writer, key, { knowsNull: schema.kinds?.has('null') === true });
      const stop = yield* readUntil(this.#source, inValue, (piece) => member.push(piece));
      if (stop !== undefined) member.end();
      return stop;
    }
    const { text, marker } = yield* collectUntil(this.#source, inValue);
    if (marker === undefined) return undefined;
    if (tools.isWrapper(tool, key)) writer.wrapped(key, text);
    else writer.member(key, this.#convert(text, schema));
    return marker;
  }
}
