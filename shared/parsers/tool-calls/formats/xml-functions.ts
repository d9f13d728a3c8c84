import { isRecord } from '../../../records/index.ts';
import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import type { CallWriter } from '../call-writer.ts';
import { collectJsonValue, parseJson } from '../json-scan.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { convertByType, decodeEntities, isStringParameter } from '../parameter-values.ts';
import {
  collectUntil,
  type Parsing,
  readOneOfBehindSpace,
  readUntil,
  skipSpace,
  TAG_END,
  type TextSource,
  tagName,
} from '../scan.ts';

/** The tags of functions with a tag for each parameter. */
export interface XmlTags {
  readonly function: string;
  readonly functionEnd: string;
  readonly parameter: string;
  readonly parameterEnd: string;
  /** What functions stand in, and may end them. */
  readonly blockEnd: string;
  /** The model's template writes a line end on each side of a value, which is no part of it. */
  readonly framesValues: boolean;
  /** A call is shown when it is whole. */
  readonly holdsCalls: boolean;
}

/** `XmlTags` made ready. */
export interface XmlDialect extends XmlTags {
  readonly inFunction: Markers;
  readonly inValue: Markers;
}

export function xmlDialect(tags: XmlTags): XmlDialect {
  const { function: start, functionEnd, parameter, parameterEnd, blockEnd } = tags;
  return {
    ...tags,
    inFunction: new Markers([parameter, functionEnd, blockEnd, start]),
    inValue: new Markers([parameterEnd, parameter, functionEnd, blockEnd]),
  };
}

/** `<function=NAME><parameter=KEY>` newline `VALUE` newline `</parameter></function>`, of Qwen3 Coder and others. */
export const FUNCTION_TAGS: XmlDialect = xmlDialect({
  function: '<function=',
  functionEnd: '</function>',
  parameter: '<parameter=',
  parameterEnd: '</parameter>',
  blockEnd: '</tool_call>',
  framesValues: true,
  holdsCalls: false,
});

/** How a value ended: at a closing tag, at the parameter that follows it, or with the text. */
type ValueEnd = { readonly stop: string } | { readonly nextKey: string } | undefined;

/** One function while it is read. */
class XmlFunction {
  readonly #dialect: XmlDialect;
  readonly #source: TextSource;
  readonly #calls: CallWriter;
  readonly #tools: ToolSchemas;
  readonly #name: string;
  readonly #writer: ArgumentsWriter;
  /** Text between tags. */
  #stray = '';

  constructor(dialect: XmlDialect, source: TextSource, calls: CallWriter, tools: ToolSchemas, name: string) {
    this.#dialect = dialect;
    this.#source = source;
    this.#calls = calls;
    this.#tools = tools;
    this.#name = name;
    this.#writer = new ArgumentsWriter(calls, name);
  }

  /** Reads to what ends the function, which is read too if it is the function's own. */
  *read(): Parsing {
    const before = this.#calls.readCount;
    let stop = yield* this.#readStray();
    while (stop === this.#dialect.parameter) {
      const closed = yield* this.#readParameter();
      stop = closed === this.#dialect.parameterEnd ? yield* this.#readStray() : closed;
    }
    if (stop !== undefined) this.#writer.close();
    if (this.#dialect.holdsCalls) {
      if (stop === undefined) this.#calls.drop();
      else this.#calls.release();
    }
    if (this.#calls.readCount > before) this.#calls.content(this.#stray);
    if (stop !== undefined && stop !== this.#dialect.functionEnd) this.#source.unread(stop);
  }

  *#readStray(): Parsing<string | undefined> {
    const { text, marker } = yield* collectUntil(this.#source, this.#dialect.inFunction);
    if (text.trim() !== '') this.#stray += text;
    return marker;
  }

  /** Reads from behind the opening of a tag, those parameters with it that follow without a closing tag; returns what ended the last. */
  *#readParameter(): Parsing<string | undefined> {
    const { text, marker } = yield* collectUntil(this.#source, TAG_END);
    let key = marker === undefined ? undefined : tagName(text);
    if (key === undefined) {
      this.#stray += this.#dialect.parameter + text + (marker ?? '');
      return marker === undefined ? undefined : yield* this.#readStray();
    }
    for (;;) {
      const end: ValueEnd = yield* this.#readMember(key);
      if (end === undefined) return undefined;
      if ('stop' in end) return end.stop;
      key = end.nextKey;
    }
  }

  *#readMember(key: string): Parsing<ValueEnd> {
    const schema = this.#tools.parameter(this.#name, key);
    const { framesValues, holdsCalls } = this.#dialect;
    const isWrapper = this.#tools.isWrapper(this.#name, key);
    const isString = isStringParameter(schema) && !isWrapper;
    const rules = { framed: framesValues, decodesEntities: true, knowsNull: true };
    const member = isString ? new StringMember(this.#writer, key, rules) : undefined;
    let text = '';
    const take =
      member === undefined || holdsCalls // what is held need not be written piece by piece
        ? (piece: string): void => {
            text += piece;
          }
        : (piece: string): void => member.push(piece);
    const end = yield* this.#readValue(key, take);
    if (end === undefined) {
      if (text.trim() !== '') this.#stray += `${this.#dialect.parameter}${key}>${text}`; // a value that is no text has no half
      return undefined;
    }
    if (member !== undefined) {
      member.push(text);
      member.end();
      return end;
    }
    const value = framesValues ? text.replace(/^\n/, '').replace(/\n$/, '') : text;
    if (isWrapper) this.#writer.wrapped(key, decodeEntities(value));
    else this.#writer.member(key, convertByType(decodeEntities(value), schema));
    return end;
  }

  /**
   * A value may speak of tags: the function's end ends it only where the block goes on or ends behind it, and another parameter's
   * beginning only if the tool has that parameter and it was not written yet.
   */
  *#readValue(key: string, take: (piece: string) => void): Parsing<ValueEnd> {
    const { parameter, functionEnd, blockEnd, function: start, inValue } = this.#dialect;
    for (;;) {
      const stop = yield* readUntil(this.#source, inValue, take);
      if (stop === undefined) return undefined;
      if (stop === functionEnd) {
        const next = yield* readOneOfBehindSpace(this.#source, [blockEnd, start]);
        if (next !== undefined) {
          this.#source.unread(next);
          return { stop };
        }
        if (this.#source.isAtEnd) return { stop };
        take(stop);
      } else if (stop === parameter) {
        const nextKey = yield* readShortTag(this.#source, (text) => take(parameter + text));
        if (nextKey === undefined) continue;
        const name = tagName(nextKey);
        const isNext = name !== undefined && name !== key && !this.#writer.has(name);
        if (isNext && this.#tools.takesParameter(this.#name, name)) return { nextKey: name };
        take(`${parameter}${nextKey}>`);
      } else return { stop };
    }
  }
}

/** Names of parameters are not longer. */
const TAG_UNITS_MAX = 256;

/** The inside of a tag up to its end; what turns out to be no tag is handed on. */
function* readShortTag(source: TextSource, take: (text: string) => void): Parsing<string | undefined> {
  let text = '';
  for (;;) {
    while (source.at < source.text.length) {
      const character = source.text[source.at] as string; // inside the text
      if (character === '>') {
        source.at++;
        return text;
      }
      if (character === '<' || character === '\n' || text.length >= TAG_UNITS_MAX) {
        take(text);
        return undefined;
      }
      text += character;
      source.at++;
    }
    if (source.isEnded) {
      take(text);
      return undefined;
    }
    yield;
  }
}

/**
 * Reads one function from behind its opening. Where it is no call, what was read stays in the record. A marker that is not the
 * function's own and ends it is not read.
 */
export function* readFunction(dialect: XmlDialect, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const { text, marker } = yield* collectUntil(source, TAG_END);
  const name = marker === undefined ? undefined : tagName(text);
  if (name === undefined) return;
  if ((yield* skipSpace(source)) === '{') {
    const json = yield* collectJsonValue(source);
    if (json === undefined || !isRecord(parseJson(json))) return;
    calls.whole(name, json);
    yield* readOneOfBehindSpace(source, [dialect.functionEnd]);
    return;
  }
  if (dialect.holdsCalls) calls.hold();
  yield* new XmlFunction(dialect, source, calls, tools, name).read();
}
