import { type Finder, Markers } from '../../markers.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { readJsonValue } from '../json-scan.ts';
import {
  ignoreRest,
  isSpace,
  type Parsing,
  readOneOf,
  readOneOfBehindSpace,
  readUntil,
  skipSpace,
  type TextSource,
} from '../scan.ts';
import { type JsonCallResult, type JsonCallShape, readJsonCall, readJsonCalls } from './json-call.ts';

const ARGUMENT_KEYS: ReadonlySet<string> = new Set(['arguments', 'parameters']);
const PLAIN: JsonCallShape = { argumentKeys: ARGUMENT_KEYS, allowsNameAlone: false };
const NAME_ALONE: JsonCallShape = { argumentKeys: ARGUMENT_KEYS, allowsNameAlone: true };

/**
 * How a start marker's markup ends. `closed`: at the end marker; what else stands before it is dropped. `value`: with the
 * JSON value. `rest`: objects parted by semicolons, and all that follows them up to the next start marker is dropped.
 */
type Ending = { readonly kind: 'closed'; readonly marker: string } | { readonly kind: 'value' | 'rest' };

interface JsonFamilyTraits {
  readonly starts: Readonly<Record<string, Ending>>;
  readonly shape?: JsonCallShape;
  /** An end marker that stands alone in prose is dropped. */
  readonly dropsOrphanEnd?: string;
  /** No call is shown before its end marker. */
  readonly holdsCalls?: boolean;
}

/**
 * The JSON family: JSON calls behind a marker, or bare as the first thing in the message. Markers inside JSON strings are text.
 */
class JsonFamily implements ToolCallFormat {
  readonly newId = prefixedUuid;
  readonly #starts: Readonly<Record<string, Ending>>;
  readonly #shape: JsonCallShape;
  readonly #holdsCalls: boolean;
  readonly #markers: Markers;
  readonly #startMarkers: readonly string[];
  readonly #ends: readonly string[];
  readonly #hasRest: boolean;

  constructor(traits: JsonFamilyTraits) {
    this.#starts = traits.starts;
    this.#shape = traits.shape ?? PLAIN;
    this.#holdsCalls = traits.holdsCalls ?? false;
    this.#startMarkers = Object.keys(traits.starts);
    const orphan = traits.dropsOrphanEnd === undefined ? [] : [traits.dropsOrphanEnd];
    const endings = Object.values(traits.starts);
    const closing = endings.flatMap((ending) => (ending.kind === 'closed' ? [ending.marker] : []));
    this.#ends = [...new Set([...closing, ...orphan])];
    this.#hasRest = endings.some((ending) => ending.kind === 'rest');
    this.#markers = new Markers([...this.#startMarkers, ...orphan]);
  }

  finder(): Finder {
    return this.#markers;
  }

  *read(marker: string, source: TextSource, calls: CallWriter): Parsing<Region> {
    const ending = this.#starts[marker];
    if (ending?.kind === 'closed') yield* this.#readClosed(marker, ending.marker, source, calls);
    else if (ending?.kind === 'value') yield* this.#readValue(source, calls);
    else if (ending?.kind === 'rest') yield* this.#readRest(source, calls);
    return 'markup';
  }

  *readOpening(source: TextSource, calls: CallWriter): Parsing<Region> {
    const first = yield* passSpace(source, calls);
    if (first === '[') {
      const marker = yield* readOneOf(source, this.#startMarkers);
      if (marker !== undefined) return yield* this.read(marker, source, calls);
    }
    if (first !== '{' && first !== '[') return 'text';
    return yield* this.#readBare(source, calls);
  }

  /** JSON without a marker: if it is no call, it is the text it seems to be. */
  *#readBare(source: TextSource, calls: CallWriter): Parsing<Region> {
    source.record();
    const result = yield* readJson(source, calls, this.#shape);
    const text = source.takeRecord();
    if (result !== 'call') {
      calls.content(text);
      return 'text';
    }
    while (this.#hasRest && (yield* readOneOfBehindSpace(source, [';'])) !== undefined) {
      if ((yield* skipSpace(source)) !== '{') break;
      if ((yield* readJsonCall(source, calls, this.#shape)) === 'broken') break;
    }
    yield* readOneOfBehindSpace(source, this.#ends);
    return 'markup';
  }

  *#readClosed(start: string, end: string, source: TextSource, calls: CallWriter): Parsing {
    const stops = new Markers([end, start]);
    for (;;) {
      if (this.#holdsCalls) calls.hold();
      let next = yield* skipSpace(source);
      while (next === '{' || next === '[') {
        if ((yield* readJson(source, calls, this.#shape)) === 'broken') break;
        next = yield* skipSpace(source);
      }
      const stop = yield* readUntil(source, stops);
      if (this.#holdsCalls && stop === end) calls.release();
      else calls.drop();
      if (stop !== start) return;
    }
  }

  *#readValue(source: TextSource, calls: CallWriter): Parsing {
    for (;;) {
      const next = yield* skipSpace(source);
      if (next === '{' || next === '[') {
        yield* readJson(source, calls, this.#shape);
        return;
      }
      // Nothing readable: dropped up to where JSON may come again (rule 5).
      const stop = yield* readUntil(source, this.#markers);
      if (stop === undefined || !this.#startMarkers.includes(stop)) return;
    }
  }

  *#readRest(source: TextSource, calls: CallWriter): Parsing {
    for (;;) {
      let next = yield* skipSpace(source);
      while (next === '{' || next === '[') {
        if ((yield* readJson(source, calls, this.#shape)) === 'broken') break;
        next = yield* skipSpace(source);
        if (next !== ';') break;
        source.at++;
        next = yield* skipSpace(source);
      }
      const stop = yield* readUntil(source, this.#markers);
      if (stop === undefined) return;
      const ending = this.#starts[stop];
      if (ending?.kind === 'closed') return yield* this.#readClosed(stop, ending.marker, source, calls);
    }
  }
}

/** What an engine writes under a forced tool choice; its native format is the way out when it did not obey. */
export function* readForcedJson(source: TextSource, calls: CallWriter, toolName: string | undefined): Parsing<Region> {
  const first = yield* skipSpace(source);
  if (first !== '{' && first !== '[') return 'text';
  source.record();
  const result = yield* first === '{' && toolName !== undefined
    ? readNamedArguments(source, calls, toolName)
    : readJson(source, calls, PLAIN);
  const text = source.takeRecord();
  if (result === 'call') {
    yield* ignoreRest(source);
    return 'markup';
  }
  calls.content(text);
  return 'text';
}

/** The object is the arguments of the named tool, whatever its keys (case C04). */
function* readNamedArguments(source: TextSource, calls: CallWriter, name: string): Parsing<JsonCallResult> {
  calls.start(name);
  const take = (piece: string): void => calls.arguments(piece);
  // An engine that ignored the constraint may write no JSON: its text is passed on as produced.
  if (!(yield* readJsonValue(source, take))) yield* readUntil(source, NOTHING, take);
  return 'call';
}

function* readJson(source: TextSource, calls: CallWriter, shape: JsonCallShape): Parsing<JsonCallResult> {
  return yield* source.text[source.at] === '['
    ? readJsonCalls(source, calls, shape)
    : readJsonCall(source, calls, shape);
}

/** White space in front of everything is content and goes out as it comes. */
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

/** Finds nothing: what is read with it is read to the end. */
const NOTHING: Finder = { find: (text) => text.length, match: () => undefined };

const TOOL_CALL_CLOSED: Ending = { kind: 'closed', marker: '</tool_call>' };
const TOOLCALL_CLOSED: Ending = { kind: 'closed', marker: '</TOOLCALL>' };

export const hermes: ToolCallFormat = new JsonFamily({
  starts: { '<tool_call>': TOOL_CALL_CLOSED },
  shape: NAME_ALONE,
  dropsOrphanEnd: '</tool_call>',
});

export const qwen25: ToolCallFormat = new JsonFamily({
  starts: { '<tool_call>': TOOL_CALL_CLOSED },
  shape: NAME_ALONE,
  dropsOrphanEnd: '</tool_call>',
  holdsCalls: true,
});

export const nemotronDeci: ToolCallFormat = new JsonFamily({ starts: { '<TOOLCALL>': TOOLCALL_CLOSED } });

export const llama3Json: ToolCallFormat = new JsonFamily({ starts: { '<|python_tag|>': { kind: 'rest' } } });

export const mistral: ToolCallFormat = new JsonFamily({
  starts: { '[TOOL_CALLS]': { kind: 'value' } },
  dropsOrphanEnd: '[/TOOL_CALLS]',
});

export const phi4: ToolCallFormat = new JsonFamily({ starts: { functools: { kind: 'value' } } });

export const jamba: ToolCallFormat = new JsonFamily({
  starts: { '<tool_calls>': { kind: 'closed', marker: '</tool_calls>' } },
  dropsOrphanEnd: '</tool_calls>',
});

/** Used when a tool choice is forced and no parser is configured. */
export const defaultJson: ToolCallFormat = new JsonFamily({
  starts: { '<TOOLCALL>': TOOLCALL_CLOSED, '<|python_tag|>': { kind: 'rest' } },
});
