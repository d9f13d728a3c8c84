import { endOfTurn } from '../../../concurrency/index.ts';
import { isLongJson, jsonPieces, objectPieces } from '../../../protocol/openai/index.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { InferenceCall } from '../inference-call.ts';
import { answerText } from './answer.ts';

type Headers = Readonly<Record<string, string>>;

/** Memory from which on an answer is written in pieces: about 2 ms for one that is not. */
const LARGE_BYTES = 1024 * 1024;
const PIECE_CHARS = 32 * 1024;
/** Characters of a text from which on it is written in pieces. */
const LARGE_CHARS = 256 * 1024;

/**
 * Writes an object with status 200: at once, or in pieces with a turn of the event loop for each when it is large.
 * @param more members behind those of `object`, each as JSON text with a comma before it
 * @returns resolves when nothing more will be written; undefined when that is so already
 */
export function writeObject(
  call: InferenceCall,
  object: object,
  more: Iterable<string> = [],
  headers?: Headers,
): Promise<void> | undefined {
  if (call.room.usedBytes >= LARGE_BYTES) return writePieces(call.exchange, objectPieces(object, more), headers);
  return writeText(call.exchange, objectText(object, more), headers);
}

/** The text of `object` with `more` at its end. */
export function objectText(object: object, more: Iterable<string>): string {
  const text = JSON.stringify(object);
  const members = [...more].join('');
  return members === '' ? text : `${text.slice(0, -1)}${members}}`;
}

/** As `writeObject`, of an object whose JSON text comes in parts. */
export function writeParts(call: InferenceCall, parts: Iterable<string>): Promise<void> | undefined {
  if (call.room.usedBytes >= LARGE_BYTES) return writePieces(call.exchange, parts);
  return writeText(call.exchange, [...parts].join(''));
}

/** As `writeObject`, of an object of which nobody knows how large it is. */
export function writeStored(exchange: HttpExchange, object: object): Promise<void> | undefined {
  if (isLongJson(object, LARGE_CHARS)) return writePieces(exchange, jsonPieces(object));
  return writeText(exchange, JSON.stringify(object));
}

function writeText(exchange: HttpExchange, text: string, headers?: Headers): undefined {
  answerText(exchange, 200, 'application/json', text, headers);
}

/**
 * All pieces are made before the first one leaves: only then is the length known, and a failure on the way still has its
 * status. A reader that does not keep up is waited for, so that the answer counts as long as it is in memory.
 */
async function writePieces(exchange: HttpExchange, texts: Iterable<string>, headers?: Headers): Promise<void> {
  const { sink } = exchange;
  const pieces: Buffer[] = [];
  let text = '';
  for (const part of texts) {
    text += part;
    if (text.length < PIECE_CHARS) continue;
    pieces.push(Buffer.from(text));
    text = '';
    await endOfTurn();
    if (sink.closed.aborted) return;
  }
  pieces.push(Buffer.from(text));
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  exchange.head(200, { 'content-type': 'application/json', 'content-length': String(bytes), ...headers });
  for (const piece of pieces) {
    sink.write(piece);
    if (sink.isBlocked()) await new Promise<void>((resolve) => sink.onUnblocked(resolve));
    else await endOfTurn();
    if (sink.closed.aborted) return;
  }
  sink.end();
}
