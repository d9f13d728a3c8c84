import { isRecord } from '../../../records/index.ts';
import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import type { CallWriter } from '../call-writer.ts';
import { collectJsonValue, parseJson } from '../json-scan.ts';
import type { ParameterSchema, ToolSchemas } from '../parameter-schema.ts';
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

/** Tags of functions with a tag for each parameter. */
export interface XmlTags {
  readonly function: string;
  readonly functionEnd: string;
  readonly parameter: string;
  readonly parameterEnd: string;
  /** Ends of what stands around functions, which may also end a function. @default none */
  readonly blockEnds?: readonly string[];
  /** Whether the model's template writes a line end on each side of a value, which is not part of it. */
  readonly framesValues: boolean;
  /** Whether a call is shown only when it is complete. */
  readonly holdsCalls: boolean;
  /** Whether only calls of declared tools count, because prose may contain the tags. @default false */
  readonly onlyDeclared?: boolean;
  /** Whether a value may stand between `<![CDATA[` and `]]>`. @default false */
  readonly hasCdata?: boolean;
  /** Whether entities in a value are text. @default false: they are decoded */
  readonly keepsEntities?: boolean;
  /** Returns the name of the tool that the model means by a name. @default the name itself */
  readonly toolOf?: (name: string, tools: ToolSchemas) => string;
}

/** Tags with their markers compiled. */
export interface XmlDialect extends XmlTags {
  /** Tags that show that a function ends, apart from its own end. */
  readonly afterFunction: readonly string[];
  readonly inFunction: Markers;
  readonly inValue: Markers;
}

export function xmlDialect(tags: XmlTags): XmlDialect {
  const { function: start, functionEnd, parameter, parameterEnd, blockEnds = [] } = tags;
  return {
    ...tags,
    afterFunction: [...blockEnds, start],
    inFunction: new Markers([parameter, functionEnd, ...blockEnds, start]),
    inValue: new Markers([parameterEnd, parameter, functionEnd, ...blockEnds]),
  };
}

/**
 * Tags `<function=NAME><parameter=KEY>` newline `VALUE` newline `</parameter></function>`, of Qwen3 Coder and others.
 */
export const FUNCTION_TAGS: XmlDialect = xmlDialect({
  function: '<function=',
  functionEnd: '</function>',
  parameter: '<parameter=',
  parameterEnd: '</parameter>',
  blockEnds: ['</tool_call>'],
  framesValues: true,
  holdsCalls: false,
});

/** End of a value: a closing tag, the next parameter, or undefined at the end of the text. */
type ValueEnd = { readonly stop: string } | { readonly nextKey: string } | undefined;

/** Reader of one function. */
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

  /** Reads up to the end of the function. The end marker is consumed only if it is the function's own. */
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

  /**
   * Reads from after the opening of a tag, including parameters that follow without a closing tag. Returns the marker
   * that ended the last one.
   */
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
    const { framesValues, holdsCalls, hasCdata, keepsEntities = false } = this.#dialect;
    if (hasCdata === true && (yield* readOneOfBehindSpace(this.#source, [CDATA])) !== undefined) {
      return yield* this.#readCdata(key, schema);
    }
    const isWrapper = this.#tools.isWrapper(this.#name, key);
    const isString = isStringParameter(schema) && !isWrapper;
    const rules = { framed: framesValues, decodesEntities: !keepsEntities, knowsNull: true };
    const member = isString ? new StringMember(this.#writer, key, rules) : undefined;
    let text = '';
    const take =
      member === undefined || holdsCalls // held values need not be written piece by piece
        ? (piece: string): void => {
            text += piece;
          }
        : (piece: string): void => member.push(piece);
    const end = yield* this.#readValue(key, take);
    if (end === undefined) {
      // only text can be half a value
      if (text.trim() !== '') this.#stray += `${this.#dialect.parameter}${key}>${text}`;
      return undefined;
    }
    if (member !== undefined) {
      member.push(text);
      member.end();
      return end;
    }
    const inside = framesValues ? text.replace(/^\n/, '').replace(/\n$/, '') : text;
    const value = keepsEntities ? inside : decodeEntities(inside);
    if (isWrapper) this.#writer.wrapped(key, value);
    else this.#writer.member(key, convertByType(value, schema));
    return end;
  }

  /**
   * Reads a value from after its opening mark to its closing tag. Tags and entities inside the marks are text, and so
   * is a closing mark without the closing tag after it.
   */
  *#readCdata(key: string, schema: ParameterSchema | undefined): Parsing<ValueEnd> {
    const { parameterEnd } = this.#dialect;
    let text = '';
    for (;;) {
      const part = yield* collectUntil(this.#source, CDATA_END);
      text += part.text;
      if (part.marker === undefined) return undefined;
      if ((yield* readOneOfBehindSpace(this.#source, [parameterEnd])) !== undefined) break;
      text += part.marker;
    }
    this.#writer.member(key, convertByType(text, schema));
    return { stop: parameterEnd };
  }

  /**
   * Reads a value, which may contain tags as text. The function's end ends the value only if the block continues or
   * ends after it. The beginning of another parameter ends it only if the tool has that parameter and it was not
   * written yet.
   */
  *#readValue(key: string, take: (piece: string) => void): Parsing<ValueEnd> {
    const { parameter, functionEnd, afterFunction, inValue } = this.#dialect;
    for (;;) {
      const stop = yield* readUntil(this.#source, inValue, take);
      if (stop === undefined) return undefined;
      if (stop === functionEnd) {
        const next = yield* readOneOfBehindSpace(this.#source, afterFunction);
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

const CDATA = '<![CDATA[';
const CDATA_END = new Markers([']]>']);

/** Length limit of a parameter's name. */
const TAG_UNITS_MAX = 256;

/** Reads the inside of a tag up to its end; passes on text that turns out not to be a tag. */
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
 * Reads one function from after its opening. If it is not a call, the text read stays in the record. A marker that ends
 * the function and is not its own is not read.
 */
export function* readFunction(dialect: XmlDialect, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const { text, marker } = yield* collectUntil(source, TAG_END);
  const written = marker === undefined ? undefined : tagName(text);
  const name = written === undefined ? undefined : (dialect.toolOf?.(written, tools) ?? written);
  if (name === undefined || (dialect.onlyDeclared === true && !tools.isDeclared(name))) return;
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
