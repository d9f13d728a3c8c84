import { Markers } from '../markers.ts';
import { MessageParser, recipientOf } from './message-parser.ts';
import type { ReasoningSink, ReasoningStart } from './parser.ts';

const START = '<|start|>';
const CHANNEL = '<|channel|>';
const CONSTRAIN = '<|constrain|>';
const MESSAGE = '<|message|>';
const ENDS: readonly string[] = ['<|end|>', '<|return|>', '<|call|>'];
const MARKERS = new Markers([START, CHANNEL, CONSTRAIN, MESSAGE, ...ENDS]);

/** Markers of `gpt_oss`, for the table of formats. */
export const HARMONY_MARKERS: readonly string[] = [CHANNEL, MESSAGE];
/** End of a prompt that leaves the model inside reasoning. */
export const HARMONY_OPENER: string = `${CHANNEL}analysis${MESSAGE}`;

const CHANNEL_NAME = /^\s*(\w+)/;
/** Prefix of the recipients of calls, in any channel. */
const FUNCTIONS = 'functions.';
/**
 * Parser of `gpt_oss`: messages with a header and a body.
 *
 *     <|start|>assistant<|channel|>analysis<|message|> ... <|end|>
 *     └───────────── header ─────────────────────────┘└ body ┘
 *
 * | Channel | Body |
 * |---|---|
 * | any, with a function as recipient | as `commentary` with a recipient |
 * | `analysis` | reasoning, one line end between two such messages |
 * | `commentary` with a recipient | content with its header and its end, for the tool-call parser |
 * | any other | content |
 */
export class HarmonyParser extends MessageParser {
  /** Whether reasoning was shown and another message has begun since. */
  #joinsReasoning = false;
  #hasReasoning = false;

  constructor(start: ReasoningStart) {
    super(MARKERS, start);
  }

  protected override readBody(text: string, out: ReasoningSink): void {
    if (this.block === 'reasoning') this.#showReasoning(text, out);
    else out.content(text);
  }

  protected override meet(marker: string, out: ReasoningSink): void {
    const isEnd = ENDS.includes(marker);
    if (this.block === 'call' && (isEnd || marker === CONSTRAIN || marker === MESSAGE)) {
      out.content(marker);
      if (isEnd) this.block = 'content';
    } else if (isEnd) {
      this.block = 'content';
      this.header = '';
    } else if (marker === MESSAGE) {
      if (this.block === 'header') this.#beginBody(this.header, out);
    } else if (marker === CONSTRAIN) {
      if (this.block === 'header') this.growHeader(marker, out);
    } else this.beginHeader(marker, marker === START, out);
  }

  #showReasoning(text: string, out: ReasoningSink): void {
    if (this.#joinsReasoning) out.reasoning('\n');
    this.#joinsReasoning = false;
    this.#hasReasoning = true;
    out.reasoning(text);
  }

  #beginBody(header: string, out: ReasoningSink): void {
    const at = header.lastIndexOf(CHANNEL);
    const channel = at < 0 ? undefined : CHANNEL_NAME.exec(header.slice(at + CHANNEL.length))?.[1];
    const recipient = recipientOf(header);
    this.header = '';
    if (recipient?.startsWith(FUNCTIONS)) this.beginCall(wholeHeader(header) + MESSAGE, out);
    else if (channel === 'analysis') {
      this.block = 'reasoning';
      this.#joinsReasoning = this.#hasReasoning;
    } else if (channel === 'commentary' && recipient !== undefined) {
      this.beginCall(wholeHeader(header) + MESSAGE, out);
    } else this.block = 'content';
  }
}

/**
 * Returns the header with its part that stands in the prompt; without that, a tool-call parser does not recognise it.
 */
function wholeHeader(header: string): string {
  const isWhole = header.startsWith(START) || header.startsWith(CHANNEL);
  return isWhole ? header : `${START}assistant ${header.trimStart()}`;
}
