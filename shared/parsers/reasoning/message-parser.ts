import type { Markers } from '../markers.ts';
import { BlockReader } from './block-reader.ts';
import type { ReasoningSink, ReasoningStart } from './parser.ts';

/**
 * Beginning of a recipient. The prompt ends with `<|start|>assistant`, so a text may begin in the middle of a header.
 */
const RECIPIENT_START = 'to=';
const RECIPIENT = /(?:^|\s)to=([^\s<]+)/;

/** Returns the recipient that a header names. */
export function recipientOf(header: string): string | undefined {
  return RECIPIENT.exec(header)?.[1];
}

/** Parser of text made of messages with a header, which may name a recipient, and a body. */
export abstract class MessageParser extends BlockReader {
  /** Whether only the beginning of a recipient was seen. */
  #isAtStart: boolean;
  /** Length of the white space at the start of the header, which is not scanned again. */
  #blankUnits = 0;

  constructor(markers: Markers, start: ReasoningStart) {
    super(markers, start === 'inside' ? 'reasoning' : 'content');
    this.#isAtStart = start === 'as-usual';
    if (this.#isAtStart) this.block = 'header';
  }

  /** Takes text of a body. */
  protected abstract readBody(text: string, out: ReasoningSink): void;
  /** Handles a marker after the start of the text. */
  protected abstract meet(marker: string, out: ReasoningSink): void;

  protected override readText(text: string, out: ReasoningSink): void {
    if (this.block !== 'header') {
      this.readBody(text, out);
      return;
    }
    this.growHeader(text, out);
    if (this.#isAtStart) this.#checkStart(out);
  }

  protected override readMarker(marker: string, out: ReasoningSink): void {
    if (this.#isAtStart) this.#leaveStart(out);
    this.meet(marker, out);
  }

  /** Drops an unfinished header, which is markup. Only the very start of a text may be content instead. */
  protected override closeHeader(out: ReasoningSink): void {
    if (this.#isAtStart && this.header !== '') out.content(this.header);
    this.header = '';
  }

  /** Begins a header at a marker, or continues the header that the marker stands in. */
  protected beginHeader(marker: string, isNew: boolean, out: ReasoningSink): void {
    if (this.block !== 'header' || isNew) this.header = '';
    this.block = 'header';
    this.growHeader(marker, out);
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
