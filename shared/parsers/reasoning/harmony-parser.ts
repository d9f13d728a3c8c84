import { Markers } from '../markers.ts';
import { BlockReader } from './block-reader.ts';
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
const RECIPIENT = /(?:^|\s)to=([^\s<]+)/;
/** Prefix of the recipients of calls, in any channel. */
const FUNCTIONS = 'functions.';
/**
 * Beginning of a recipient. The prompt ends with `<|start|>assistant`, so a text may begin in the middle of a header.
 */
const RECIPIENT_START = 'to=';

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
export class HarmonyParser extends BlockReader {
  /** Whether reasoning was shown and another message has begun since. */
  #joinsReasoning = false;
  #hasReasoning = false;
  /** Whether only the beginning of a recipient was seen. */
  #isAtStart: boolean;
  /** Length of the white space at the start of the header, which is not scanned again. */
  #blankUnits = 0;

  constructor(start: ReasoningStart) {
    super(MARKERS, start === 'inside' ? 'reasoning' : 'content');
    this.#isAtStart = start === 'as-usual';
    if (this.#isAtStart) this.block = 'header';
  }

  protected override readText(text: string, out: ReasoningSink): void {
    if (this.block === 'header') {
      this.growHeader(text, out);
      if (this.#isAtStart) this.#checkStart(out);
    } else if (this.block === 'reasoning') this.#showReasoning(text, out);
    else out.content(text);
  }

  protected override readMarker(marker: string, out: ReasoningSink): void {
    if (this.#isAtStart) this.#leaveStart(out);
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
    } else this.#readHeaderMarker(marker, out);
  }

  /** Drops an unfinished header, which is markup. Only the very start of a text may be content instead. */
  protected override closeHeader(out: ReasoningSink): void {
    if (this.#isAtStart && this.header !== '') out.content(this.header);
    this.header = '';
  }

  #showReasoning(text: string, out: ReasoningSink): void {
    if (this.#joinsReasoning) out.reasoning('\n');
    this.#joinsReasoning = false;
    this.#hasReasoning = true;
    out.reasoning(text);
  }

  #readHeaderMarker(marker: string, out: ReasoningSink): void {
    if (this.block !== 'header' || marker === START) this.header = '';
    this.block = 'header';
    this.growHeader(marker, out);
  }

  #beginBody(header: string, out: ReasoningSink): void {
    const at = header.lastIndexOf(CHANNEL);
    const channel = at < 0 ? undefined : CHANNEL_NAME.exec(header.slice(at + CHANNEL.length))?.[1];
    const recipient = RECIPIENT.exec(header)?.[1];
    this.header = '';
    if (recipient?.startsWith(FUNCTIONS)) this.beginCall(wholeHeader(header) + MESSAGE, out);
    else if (channel === 'analysis') {
      this.block = 'reasoning';
      this.#joinsReasoning = this.#hasReasoning;
    } else if (channel === 'commentary' && recipient !== undefined) {
      this.beginCall(wholeHeader(header) + MESSAGE, out);
    } else this.block = 'content';
  }

  /** Checks the start of the text: if it is neither a recipient nor a marker, it is content. */
  #checkStart(out: ReasoningSink): void {
    const seen = this.header.slice(this.#blankUnits).trimStart();
    this.#blankUnits = this.header.length - seen.length;
    const length = Math.min(seen.length, RECIPIENT_START.length);
    if (seen.slice(0, length) === RECIPIENT_START.slice(0, length)) return;
    this.#isAtStart = false;
    this.block = 'content';
    out.content(this.header);
    this.header = '';
  }

  /** Handles the first marker: the text before it is a recipient or content. */
  #leaveStart(out: ReasoningSink): void {
    this.#isAtStart = false;
    if (this.header.trimStart().startsWith(RECIPIENT_START)) return;
    if (this.header !== '') out.content(this.header);
    this.header = '';
    this.block = 'content';
  }
}

/**
 * Returns the header with its part that stands in the prompt; without that, a tool-call parser does not recognise it.
 */
function wholeHeader(header: string): string {
  const isWhole = header.startsWith(START) || header.startsWith(CHANNEL);
  return isWhole ? header : `${START}assistant ${header.trimStart()}`;
}
