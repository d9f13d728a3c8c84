import { StringDecoder } from 'node:string_decoder';
import { workerError } from '../../errors/index.ts';

/** Size limit of an event; well-behaved servers send smaller ones. */
const EVENT_CHARS_MAX = 8 * 1024 * 1024;
const LF = 10;

/**
 * Reads a stream of server-sent events and passes on the data of each, with the event's name if it has one. Chunks may
 * end anywhere: inside a character, between CR and LF, inside a field name. Comments and all other fields are skipped.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onData: (data: string, event: string) => void;
  #rest = ''; // an unfinished line
  #data = '';
  #event = '';
  #hasData = false;
  #isAtStart = true;
  #skipsLf = false; // the last chunk ended in CR; a LF that follows belongs to it

  constructor(onData: (data: string, event: string) => void) {
    this.#onData = onData;
  }

  /** Takes a chunk. @throws ServeError `BackendProtocol` when an event grows over 8 MiB. */
  push(chunk: Uint8Array): void {
    this.#take(this.#decoder.write(chunk));
  }

  /** Ends the stream; an event that lacks its closing blank line counts as complete. */
  end(): void {
    this.#take(this.#decoder.end());
    if (this.#rest !== '') this.#line(this.#rest);
    this.#rest = '';
    this.#line('');
  }

  #take(text: string): void {
    if (text === '') return;
    let start = 0;
    if (this.#skipsLf && text.charCodeAt(0) === LF) start = 1;
    this.#skipsLf = false;
    let cr = text.indexOf('\r', start); // servers of engines send no CR: then only LF is searched
    let lf = text.indexOf('\n', start);
    while (lf >= 0 || cr >= 0) {
      const isCr = cr >= 0 && (lf < 0 || cr < lf);
      const at = isCr ? cr : lf;
      this.#line(this.#rest + text.slice(start, at));
      this.#rest = '';
      start = at + 1;
      if (isCr && start === text.length) this.#skipsLf = true;
      else if (isCr && text.charCodeAt(start) === LF) start++;
      if (lf >= 0 && lf < start) lf = text.indexOf('\n', start);
      if (cr >= 0 && cr < start) cr = text.indexOf('\r', start);
    }
    this.#rest += text.slice(start);
    if (this.#rest.length + this.#data.length > EVENT_CHARS_MAX) {
      throw workerError(
        'BackendProtocol',
        `an event of the engine's stream is larger than ${EVENT_CHARS_MAX} characters`,
      );
    }
  }

  #line(text: string): void {
    let line = text;
    if (this.#isAtStart) {
      this.#isAtStart = false;
      if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
    }
    if (line === '') {
      this.#dispatch();
      return;
    }
    if (line !== 'data' && !line.startsWith('data:')) {
      if (line.startsWith('event:')) this.#event = line.slice(6).trim();
      return;
    }
    const value = line.slice(line.charCodeAt(5) === 32 ? 6 : 5);
    this.#data = this.#hasData ? `${this.#data}\n${value}` : value;
    this.#hasData = true;
  }

  #dispatch(): void {
    const event = this.#event;
    this.#event = '';
    if (!this.#hasData) return;
    const data = this.#data;
    this.#data = '';
    this.#hasData = false;
    this.#onData(data, event);
  }
}
