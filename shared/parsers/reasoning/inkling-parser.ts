import { Markers } from '../markers.ts';
import { BlockReader } from './block-reader.ts';
import type { ReasoningSink, ReasoningStart } from './parser.ts';

const MESSAGE = '<|message_model|>';
const THINKING = '<|content_thinking|>';
const TEXT = '<|content_text|>';
const CALL = '<|content_invoke_tool_json|>';
const END = '<|end_message|>';
const END_SAMPLING = '<|content_model_end_sampling|>';
const MARKERS = new Markers([MESSAGE, THINKING, TEXT, CALL, END, END_SAMPLING]);

/** Markers of `inkling`, for the table of formats. */
export const INKLING_MARKERS: readonly string[] = [THINKING, END];
/** End of a prompt that leaves the model inside reasoning. */
export const INKLING_OPENER: string = THINKING;

/**
 * Parser of `inkling`: typed blocks, each `<|message_model|>`, a type and a body up to `<|end_message|>`. Calls are
 * passed on verbatim, for the tool-call parser:
 * `<|message_model|>name<|content_invoke_tool_json|>{...}<|end_message|>`.
 */
export class InklingParser extends BlockReader {
  constructor(start: ReasoningStart) {
    super(MARKERS, start === 'inside' ? 'reasoning' : 'content');
  }

  protected override readText(text: string, out: ReasoningSink): void {
    if (this.block === 'header') this.growHeader(text, out);
    else if (this.block === 'reasoning') out.reasoning(text);
    else out.content(text);
  }

  protected override readMarker(marker: string, out: ReasoningSink): void {
    if (this.block === 'call') {
      out.content(marker);
      if (marker === END || marker === END_SAMPLING) this.block = 'content';
      return;
    }
    const header = this.header;
    this.header = '';
    switch (marker) {
      case MESSAGE:
        this.#showName(header, out);
        this.block = 'header';
        this.header = MESSAGE;
        return;
      case THINKING:
        this.block = 'reasoning';
        return;
      case CALL:
        this.beginCall(header + CALL, out);
        return;
      case TEXT:
        this.block = 'content';
        return;
      default: // the end of a block
        this.#showName(header, out);
        this.block = 'content';
    }
  }

  /** Drops a name if the text ends before its call begins: it is markup. */
  protected override closeHeader(): void {
    this.header = '';
  }

  /** Shows the text of a message that has no type. */
  #showName(header: string, out: ReasoningSink): void {
    const name = header.slice(MESSAGE.length);
    if (name !== '') out.content(name);
  }
}
