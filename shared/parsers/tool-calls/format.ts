import type { FinishReason } from '../../protocol/index.ts';
import type { Finder } from '../markers.ts';
import { CallIds, type NewCallId } from './call-ids.ts';
import { CallWriter, type ToolCallOptions, type ToolCallParser, type ToolCallSink } from './call-writer.ts';
import { ToolSchemas } from './parameter-schema.ts';
import { type Advance, type Parsing, TextSource } from './scan.ts';

/** Kind of a segment of the message. White space after markup is dropped; white space after text is kept. */
export type Region = 'markup' | 'text';

/** Format in which one family of models writes tool calls. */
export interface ToolCallFormat {
  readonly newId: NewCallId;
  /** Returns what finds markup in prose. */
  finder(tools: ToolSchemas): Finder;
  /** Reads from after a marker up to the place where prose continues. */
  read(marker: string, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region>;
  /** Reads from the first character of the message, for formats that need no marker there. */
  readOpening?(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region>;
  /** Marker that also takes the white space before it, if that holds an empty line. */
  readonly paragraphMarker?: string;
  /** Whether the markers are special tokens of the tokenizer: then the request needs `skip_special_tokens: false`. */
  readonly keepsSpecialTokens?: boolean;
  /**
   * Markers of calls that are tokens of their own in the family's models. Such a model writes them only for calls, so
   * they end reasoning.
   */
  readonly callTokens?: readonly string[];
  /** Markers that end a turn. If they are also end tokens of the model, the parser must see their text. */
  readonly endTokens?: readonly string[];
}

const NO_SINK: ToolCallSink = { content: () => {}, callStart: () => {}, callArguments: () => {} };

/**
 * Reads the message as alternating prose and markup.
 *
 * | State | a piece of text | a marker | end of the text |
 * |---|---|---|---|
 * | prose | content at once; a tail that may become a marker is held | -> markup | held text is content |
 * | prose after markup | white space is held, and goes out with the text after it | -> markup; held space goes out if that is text | held space dropped |
 * | markup | read by the format | read by the format | the format gives up what is not committed |
 */
export class MarkupParser implements ToolCallParser {
  readonly #format: ToolCallFormat;
  readonly #tools: ToolSchemas;
  readonly #finder: Finder;
  readonly #source = new TextSource();
  readonly #calls: CallWriter;
  readonly #holdsSpace: boolean;
  #region: Parsing<Region> | undefined;
  /** Function that reads on until the region can continue, if the region waits for that. */
  #advance: Advance | undefined;
  #isAfterMarkup = false;
  #space = '';

  constructor(format: ToolCallFormat, options: ToolCallOptions) {
    const { toolChoice } = options;
    this.#format = format;
    this.#holdsSpace = format.paragraphMarker !== undefined;
    this.#tools = new ToolSchemas(options.tools);
    this.#finder = format.finder(this.#tools);
    this.#calls = new CallWriter(NO_SINK, new CallIds(options.random, format.newId), {
      onlyFirst: options.parallelToolCalls === false,
      onlyName: typeof toolChoice === 'object' ? toolChoice.name : undefined,
    });
    this.#calls.onCommit = () => this.#source.forget();
    this.#region = format.readOpening?.(this.#source, this.#calls, this.#tools);
  }

  get callCount(): number {
    return this.#calls.count;
  }

  push(text: string, out: ToolCallSink): void {
    if (this.#isPlain(text)) {
      if (text !== '') out.content(text);
      return;
    }
    this.#calls.out = out;
    this.#source.feed(text);
    this.#run();
  }

  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null {
    this.#calls.out = out;
    this.#source.isEnded = true;
    this.#run();
    if (!this.#isAfterMarkup) this.#calls.content(this.#space);
    this.#space = '';
    return finishReasonAfterCalls(reason, this.#calls.count);
  }

  /** Returns whether nothing is held and none of the text needs to be held. */
  #isPlain(text: string): boolean {
    if (this.#region !== undefined || this.#isAfterMarkup || this.#space !== '' || !this.#source.isEmpty) return false;
    if (this.#holdsSpace && text.trimEnd().length !== text.length) return false;
    return this.#finder.find(text, 0, false) === text.length;
  }

  #run(): void {
    for (;;) {
      if (this.#region !== undefined) {
        if (this.#advance !== undefined && !this.#advance()) return;
        const step = this.#region.next();
        this.#advance = step.done ? undefined : step.value;
        if (!step.done) return;
        this.#region = undefined;
        this.#isAfterMarkup = step.value === 'markup';
        if (!this.#isAfterMarkup) this.#space = this.#calls.lead;
        this.#calls.lead = '';
      }
      if (!this.#readProse()) return;
    }
  }

  /** Reads prose. Returns true when it ended at a marker. */
  #readProse(): boolean {
    const source = this.#source;
    const found = this.#finder.find(source.text, source.at, source.isEnded);
    if (found > source.at) this.#prose(source.text.slice(source.at, found));
    source.at = found;
    const marker = found < source.text.length ? this.#finder.match(source.text, found, source.isEnded) : undefined;
    if (marker === undefined) return false;
    source.at += marker.length;
    const isLead = this.#isAfterMarkup || (marker === this.#format.paragraphMarker && /\n\s*\n/.test(this.#space));
    if (isLead) this.#calls.lead = this.#space;
    else this.#calls.content(this.#space);
    this.#space = '';
    this.#region = this.#format.read(marker, source, this.#calls, this.#tools);
    return true;
  }

  #prose(piece: string): void {
    if ((this.#isAfterMarkup || this.#holdsSpace) && piece.trim() === '') {
      this.#space += piece;
      return;
    }
    const text = this.#space + piece;
    this.#isAfterMarkup = false;
    const kept = this.#holdsSpace ? text.trimEnd() : text;
    this.#space = text.slice(kept.length);
    this.#calls.content(kept);
  }
}

/** Turns `stop`, or a missing reason, into `tool_calls` once calls were shown; other reasons stay. */
export function finishReasonAfterCalls(reason: FinishReason | null, callCount: number): FinishReason | null {
  return callCount > 0 && (reason === 'stop' || reason === null) ? 'tool_calls' : reason;
}
