import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { workerError } from '../../errors/index.ts';

/** Of an answer that is no stream of events. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

const DECODERS = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
} as const;

/**
 * The bytes of an answer without its coding: some servers compress whether or not they were asked to.
 * @throws ServeError `BackendProtocol` for a coding that is not known
 */
export function decodedBody(response: IncomingMessage): Readable {
  const coding = (response.headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return response;
  if (!Object.hasOwn(DECODERS, coding)) {
    response.resume();
    throw workerError('BackendProtocol', `the engine's answer is coded as ${coding.slice(0, 100)}`);
  }
  const decoder = DECODERS[coding as keyof typeof DECODERS](); // it has it
  response.once('error', (error) => decoder.destroy(error));
  return response.pipe(decoder);
}

/** @throws ServeError `BackendProtocol` */
export function requireBodyBytes(bytes: number): void {
  if (bytes <= BODY_BYTES_MAX) return;
  throw workerError('BackendProtocol', `the answer is larger than ${BODY_BYTES_MAX} bytes`); // as it would be elsewhere
}

/** What stands first in a stream of events. */
const EVENT_STARTS = ['data:', 'event:', 'id:', 'retry:', ':'] as const;
const START_CHARS = 16;

/**
 * Tells a stream of events from one whole answer by its first bytes, as servers send either whatever they were asked for, and
 * under any content type. Gives events on as they come, and the rest of answers at their end.
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

  /** @throws ServeError `BackendProtocol` when a whole answer is too large; as `onEvents` does */
  push(chunk: Buffer): void {
    if (this.#form === 'events') {
      this.#onEvents(chunk);
      return;
    }
    this.#bytes += chunk.length;
    requireBodyBytes(this.#bytes);
    this.#kept.push(chunk);
    this.#form ??= this.#look(false);
    if (this.#form === 'events') for (const kept of this.#kept.splice(0)) this.#onEvents(kept);
  }

  /** The whole answer; undefined of a stream of events. */
  end(): Buffer | undefined {
    this.#form ??= this.#look(true);
    if (this.#form === 'whole') return Buffer.concat(this.#kept);
    for (const kept of this.#kept.splice(0)) this.#onEvents(kept);
    return undefined;
  }

  /** Undefined while the bytes so far leave it open. */
  #look(isEnd: boolean): 'events' | 'whole' | undefined {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    const start = firstWords(this.#kept[0]);
    if (start === '') {
      this.#kept = []; // spaces, of which there may be any number
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

/** The first characters that are neither a byte order mark nor space. */
function firstWords(kept: Buffer | undefined): string {
  const bytes = kept ?? Buffer.alloc(0);
  let at = BOM.every((byte, place) => bytes[place] === byte) ? BOM.length : 0;
  while (SPACES.has(bytes[at] ?? -1)) at++;
  return bytes.toString('latin1', at, at + START_CHARS);
}
