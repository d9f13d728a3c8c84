import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { workerError } from '../../errors/index.ts';

/** Size limit of an answer that is not a stream of events. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

const DECODERS = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
} as const;

/**
 * Returns the bytes of an answer without its content coding: some servers compress even if they were not asked to.
 * @throws ServeError `BackendProtocol` for an unknown coding
 */
export function decodedBody(response: IncomingMessage): Readable {
  const coding = (response.headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return response;
  if (!Object.hasOwn(DECODERS, coding)) {
    response.resume();
    throw workerError('BackendProtocol', `the engine's answer has the content encoding ${coding.slice(0, 100)}`);
  }
  const decoder = DECODERS[coding as keyof typeof DECODERS](); // the key was checked
  response.once('error', (error) => decoder.destroy(error));
  return response.pipe(decoder);
}

/** Checks the size of a whole answer. @throws ServeError `BackendProtocol` */
export function requireBodyBytes(bytes: number): void {
  if (bytes <= BODY_BYTES_MAX) return;
  // another worker's answer would be as large
  throw workerError('BackendProtocol', `the answer is larger than ${BODY_BYTES_MAX} bytes`);
}

/** Beginnings of a stream of events. */
const EVENT_STARTS = ['data:', 'event:', 'id:', 'retry:', ':'] as const;
const START_CHARS = 16;

/**
 * Distinguishes a stream of events from one whole answer by its first bytes: servers send either form whatever was
 * requested, under any content type. Passes events on as they arrive, and returns a whole answer at its end.
 */
export class AnswerForm {
  readonly #isNamedEvents: boolean;
  readonly #onEvents: (chunk: Buffer) => void;
  #kept: Buffer[] = [];
  #bytes = 0;
  #form: 'events' | 'whole' | undefined;

  constructor(headers: IncomingHttpHeaders, onEvents: (chunk: Buffer) => void) {
    this.#isNamedEvents = /^\s*text\/event-stream/i.test(headers['content-type'] ?? '');
    this.#onEvents = onEvents;
  }

  get isEvents(): boolean {
    return this.#form === 'events';
  }

  /**
   * Takes a chunk. @throws ServeError `BackendProtocol` when a whole answer is too large, and the errors of `onEvents`
   */
  push(chunk: Buffer): void {
    if (this.#form === 'events') {
      this.#onEvents(chunk);
      return;
    }
    this.#bytes += chunk.length;
    requireBodyBytes(this.#bytes);
    this.#kept.push(chunk);
    this.#form ??= this.#detect(false);
    if (this.#form === 'events') for (const kept of this.#kept.splice(0)) this.#onEvents(kept);
  }

  /** Ends the answer. Returns a whole answer, or undefined for a stream of events. */
  end(): Buffer | undefined {
    this.#form ??= this.#detect(true);
    if (this.#form === 'whole') return Buffer.concat(this.#kept);
    for (const kept of this.#kept.splice(0)) this.#onEvents(kept);
    return undefined;
  }

  /** Detects the form; undefined while the bytes so far leave it open. */
  #detect(isEnd: boolean): 'events' | 'whole' | undefined {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    const start = firstWords(this.#kept[0]);
    if (start === '') {
      this.#kept = []; // white space, of which there may be any amount
      return isEnd ? (this.#isNamedEvents ? 'events' : 'whole') : undefined;
    }
    if (start.startsWith('{') || start.startsWith('[')) return 'whole';
    if (this.#isNamedEvents) return 'events';
    if (EVENT_STARTS.some((known) => start.startsWith(known))) return 'events';
    return !isEnd && EVENT_STARTS.some((known) => known.startsWith(start)) ? undefined : 'whole';
  }
}

const SPACES: ReadonlySet<number> = new Set([0, 9, 10, 13, 32]);
const BOM = [0xef, 0xbb, 0xbf];

/** Returns the first characters that are neither a byte order mark nor white space. */
function firstWords(kept: Buffer | undefined): string {
  const bytes = kept ?? Buffer.alloc(0);
  let at = BOM.every((byte, place) => bytes[place] === byte) ? BOM.length : 0;
  while (SPACES.has(bytes[at] ?? -1)) at++;
  return bytes.toString('latin1', at, at + START_CHARS);
}
