import { Markers } from '../markers.ts';
import { MessageParser, recipientOf } from './message-parser.ts';
import type { ReasoningSink, ReasoningStart } from './parser.ts';

const START = '<|start|>';
const MESSAGE = '<|message|>';
const ENDS: readonly string[] = ['<|eom|>', '<|eot|>'];
const MARKERS = new Markers([START, MESSAGE, ...ENDS]);
/** Recipient of reasoning. */
const SELF = 'self';
/** Recipient of answers. */
const USER = 'user';

/** Markers of `muse_glimmer`, for the table of formats. */
export const MUSE_MARKERS: readonly string[] = [MESSAGE, ...ENDS];
/** End of a prompt that leaves the model inside reasoning. */
export const MUSE_OPENER: string = `${START}assistant to=${SELF}${MESSAGE}`;

/**
 * Parser of `muse_glimmer`: messages with a header and a body.
 *
 *     <|start|>assistant to=self<|message|> ... <|eom|>
 *     └───────────── header ──────────────┘└ body ┘
 *
 * A message to `self` is reasoning. A message to a tool is content with its header and its end, for the tool-call
 * parser. Any other message is content.
 */
export class MuseParser extends MessageParser {
  /** Whether the body is that of a message to a tool. */
  #isCall = false;

  constructor(start: ReasoningStart) {
    super(MARKERS, start);
  }

  protected override readBody(text: string, out: ReasoningSink): void {
    if (this.block === 'reasoning') out.reasoning(text);
    else out.content(text);
  }

  protected override meet(marker: string, out: ReasoningSink): void {
    if (marker === START) {
      this.#isCall = false;
      this.beginHeader(marker, true, out);
    } else if (marker === MESSAGE) {
      if (this.block === 'header') this.#beginBody(this.header, out);
    } else {
      if (this.#isCall) out.content(marker);
      this.#isCall = false;
      this.block = 'content';
      this.header = '';
    }
  }

  #beginBody(header: string, out: ReasoningSink): void {
    const recipient = recipientOf(header);
    this.header = '';
    this.block = recipient === SELF ? 'reasoning' : 'content';
    this.#isCall = recipient !== undefined && recipient !== SELF && recipient !== USER;
    // The beginning of the first header stands in the prompt.
    const rest = header.startsWith(START) ? header : `${START}assistant ${header.trimStart()}`;
    if (this.#isCall) out.content(rest + MESSAGE);
  }
}
