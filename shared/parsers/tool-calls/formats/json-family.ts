import { type Finder, Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { readJsonValue } from '../json-scan.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import {
  isSpace,
  type Parsing,
  passOver,
  readMarker,
  readOneOf,
  readOneOfBehindSpace,
  readUntil,
  skipSpace,
  type TextSource,
} from '../scan.ts';
import { type ClosedMarkup, closedMarkup, readClosed } from './closed-markup.ts';
import { type JsonCallResult, type JsonCallShape, readJsonCall, readJsonCalls } from './json-call.ts';
import { FUNCTION_TAGS, readFunction, type XmlDialect } from './xml-functions.ts';

const ARGUMENT_KEYS: ReadonlySet<string> = new Set(['arguments', 'parameters']);
export const PLAIN: JsonCallShape = { argumentKeys: ARGUMENT_KEYS, allowsNameAlone: false };
export const NAME_ALONE: JsonCallShape = { argumentKeys: ARGUMENT_KEYS, allowsNameAlone: true };
export const TOOL_CALL = '<tool_call>';
export const TOOL_CALL_END = '</tool_call>';
/** Superfluous characters that models write after the JSON of a call. */
const JSON_DEBRIS = '}],;';

/**
 * End of the markup after a start marker. `closed`: at the end marker. `value`: with the JSON value. `list`: after
 * objects separated by semicolons.
 */
export type Ending =
  | {
      readonly kind: 'closed';
      readonly marker: string;
      /** Whether only calls of declared tools count, because the markers also stand around other JSON. */
      readonly onlyDeclared?: boolean;
    }
  | { readonly kind: 'value' | 'list' };

interface JsonFamilyTraits {
  readonly starts: Readonly<Record<string, Ending>>;
  readonly shape?: JsonCallShape;
  /** Markers that are dropped when they stand by themselves in prose, such as end markers. @default none */
  readonly drops?: readonly string[];
  /** Whether a call is shown only after its end marker. */
  readonly holdsCalls?: boolean;
  /** Reads a `value` that is not JSON; returns false when it is not a call. */
  readonly readOther?: (source: TextSource, calls: CallWriter) => Parsing<boolean>;
  /** Start markers that are tokens of the models. */
  readonly callTokens?: readonly string[];
  readonly keepsSpecialTokens?: boolean;
}

/**
 * Format of the JSON family: JSON calls after a marker, or bare at the beginning of the message. Markers inside JSON
 * strings are text.
 */
export class JsonFamily implements ToolCallFormat {
  readonly newId = prefixedUuid;
  readonly callTokens: readonly string[];
  readonly keepsSpecialTokens: boolean;
  readonly #starts: Readonly<Record<string, Ending>>;
  /** Blocks with an end marker, by start marker. */
  readonly #blocks: ReadonlyMap<string, JsonBlock>;
  readonly #shape: JsonCallShape;
  readonly #markers: Markers;
  readonly #starting: Markers;
  readonly #ends: readonly string[];
  readonly #hasList: boolean;
  readonly #readOther: JsonFamilyTraits['readOther'];

  constructor(traits: JsonFamilyTraits) {
    this.#starts = traits.starts;
    this.#shape = traits.shape ?? PLAIN;
    this.#readOther = traits.readOther;
    this.callTokens = traits.callTokens ?? [];
    this.keepsSpecialTokens = traits.keepsSpecialTokens ?? false;
    const startMarkers = Object.keys(traits.starts);
    this.#starting = new Markers(startMarkers);
    const drops = traits.drops ?? [];
    this.#blocks = new Map(
      Object.entries(traits.starts).flatMap(([start, ending]) =>
        ending.kind === 'closed' ? [[start, jsonBlock(start, ending.marker, this.#shape, traits)]] : [],
      ),
    );
    const closing = Array.from(this.#blocks.values(), ({ markup }) => markup.ends);
    this.#ends = [...new Set([...closing.flat(), ...drops])];
    this.#hasList = Object.values(traits.starts).some((ending) => ending.kind === 'list');
    this.#markers = new Markers([...startMarkers, ...drops]);
  }

  finder(): Finder {
    return this.#markers;
  }

  *read(marker: string, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
    const ending = this.#starts[marker];
    if (ending === undefined) return 'markup'; // a marker that is dropped
    const block = this.#blocks.get(marker);
    if (block !== undefined) {
      const isBare = ending.kind === 'closed' && ending.onlyDeclared === true;
      const shaped = isBare ? { ...block, shape: this.#bareShape(tools) } : block;
      return yield* readToolCallBlock(shaped, source, calls, tools);
    }
    source.record(marker);
    return yield* this.#readOpen(source, calls, this.#shape, ending.kind === 'list');
  }

  *readOpening(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
    const first = yield* passSpace(source, calls);
    if (first === '[') {
      const marker = yield* readMarker(source, this.#starting);
      if (marker !== undefined) return yield* this.read(marker, source, calls, tools);
    }
    if (first !== '{' && first !== '[') return 'text';
    source.record();
    const region = yield* this.#readOpen(source, calls, this.#bareShape(tools), this.#hasList);
    if (region === 'markup') yield* readOneOfBehindSpace(source, this.#ends);
    return region;
  }

  /** Returns the shape of calls whose JSON has no marker of its own. */
  #bareShape(tools: ToolSchemas): JsonCallShape {
    return { ...this.#shape, allowsNameAlone: false, takesBare: (name) => tools.isDeclared(name) };
  }

  /** Reads JSON that ends with its value. If it is not a call, the recorded text is shown. */
  *#readOpen(source: TextSource, calls: CallWriter, shape: JsonCallShape, isList: boolean): Parsing<Region> {
    const first = yield* skipSpace(source);
    if (first !== '{' && first !== '[') {
      if (this.#readOther !== undefined && (yield* this.#readOther(source, calls))) return 'markup';
      calls.content(source.takeRecord());
      return 'text';
    }
    const result = yield* readJson(source, calls, shape);
    const isNone = result === 'empty' && shape.takesBare === undefined;
    if (result !== 'call' && !isNone) {
      calls.content(source.takeRecord());
      return 'text';
    }
    source.forget();
    while (isList && (yield* readOneOfBehindSpace(source, [';'])) !== undefined) {
      source.record(';');
      if ((yield* skipSpace(source)) === '{' && (yield* readJsonCall(source, calls, shape)) === 'call') continue;
      calls.content(source.takeRecord());
      return 'text';
    }
    return 'markup';
  }
}

/** Block of JSON calls between two markers. */
export interface JsonBlock {
  readonly markup: ClosedMarkup;
  readonly shape: JsonCallShape;
  /** Whether a call at the end of the text, without the end marker, does not count. */
  readonly holdsCalls: boolean;
  /** Dialect of functions in XML inside the block. */
  readonly functions: XmlDialect;
}

export function jsonBlock(
  start: string,
  end: string,
  shape: JsonCallShape,
  { holdsCalls = false, functions = FUNCTION_TAGS }: Partial<Pick<JsonBlock, 'holdsCalls' | 'functions'>> = {},
): JsonBlock {
  const bodyStarts = [functions.function, '{'];
  return { markup: closedMarkup({ start, ends: [end], bodyStarts }), shape, holdsCalls, functions };
}

/**
 * Reads from after the start marker. Bodies are JSON or, as some models of the same family write them, functions in
 * XML.
 */
export function* readToolCallBlock(
  block: JsonBlock,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing<Region> {
  return yield* readClosed(block.markup, source, calls, () => readBodies(block, source, calls, tools));
}

function* readBodies(
  { shape, holdsCalls, functions }: JsonBlock,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing<boolean> {
  let result: JsonCallResult | undefined;
  /** Text of the calls that are held. */
  let held = '';
  if (holdsCalls) calls.hold();
  for (;;) {
    const next = yield* skipSpace(source);
    const before = calls.readCount;
    if (next === '<' && (yield* readOneOf(source, [functions.function])) !== undefined) {
      if (!source.isRecording) source.record(functions.function);
      yield* readFunction(functions, source, calls, tools);
      result = calls.readCount > before ? 'call' : 'broken';
    } else if (next === '{' || next === '[') {
      if (!source.isRecording) source.record();
      result = yield* readJson(source, calls, shape);
    } else {
      if (next !== '') break;
      calls.drop();
      calls.content(held);
      break;
    }
    if (result === 'call') {
      if (holdsCalls) source.record(held + source.takeRecord());
      yield* passOver(source, JSON_DEBRIS);
      if (holdsCalls) held = source.takeRecord();
    } else if (result === 'empty') source.forget();
    else {
      const text = source.takeRecord();
      calls.release(); // the calls before it, which ends any record
      calls.content(text);
      break;
    }
  }
  calls.release();
  return result === 'empty';
}

/**
 * Reads the JSON that an engine writes under a forced tool choice. If the engine did not obey, the model's native
 * format applies.
 */
export function* readForcedJson(source: TextSource, calls: CallWriter, toolName: string | undefined): Parsing<Region> {
  const first = yield* skipSpace(source);
  if (first !== '{' && first !== '[') return 'text';
  source.record();
  const result = yield* first === '{' && toolName !== undefined
    ? readNamedArguments(source, calls, toolName)
    : readJson(source, calls, PLAIN);
  calls.content(source.takeRecord());
  return result === 'call' ? 'markup' : 'text';
}

/** Reads an object as the arguments of the named tool, whatever its keys. */
function* readNamedArguments(source: TextSource, calls: CallWriter, name: string): Parsing<JsonCallResult> {
  calls.start(name);
  const take = (piece: string): void => calls.arguments(piece);
  // An engine that ignored the constraint may write text that is not JSON, which is passed on as produced.
  if (!(yield* readJsonValue(source, take))) yield* readUntil(source, NOTHING, take);
  return 'call';
}

function* readJson(source: TextSource, calls: CallWriter, shape: JsonCallShape): Parsing<JsonCallResult> {
  return yield* source.text[source.at] === '['
    ? readJsonCalls(source, calls, shape)
    : readJsonCall(source, calls, shape);
}

/** Passes on white space before everything else: it is content and goes out as it arrives. */
function* passSpace(source: TextSource, calls: CallWriter): Parsing<string> {
  for (;;) {
    const { text } = source;
    let at = source.at;
    while (at < text.length && isSpace(text.charCodeAt(at))) at++;
    calls.content(text.slice(source.at, at));
    source.at = at;
    if (at < text.length) return text[at] as string;
    if (source.isEnded) return '';
    yield;
  }
}

/** Finds nothing, so that reading goes on to the end. */
const NOTHING: Finder = { find: (text) => text.length, match: () => undefined };
