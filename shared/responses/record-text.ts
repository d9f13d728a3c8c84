import { endOfTurn } from '../concurrency/index.ts';
import { isLongJson, jsonPieces, parseOwnJson } from '../protocol/json/index.ts';
import type { StoredResponse } from './types.ts';

/** What a record says beside its key. */
export type RecordBody = Omit<StoredResponse, 'id' | 'owner'>;

/** Longer texts are written and read in pieces, with a turn of the event loop for each: this takes 3 ms. */
const LONG_CHARS = 256 * 1024;

/** The text of a record, as UTF-8. */
export async function writeRecord(body: RecordBody): Promise<Buffer> {
  if (!isLongJson(body, LONG_CHARS)) return Buffer.from(JSON.stringify(body));
  const pieces: Buffer[] = [];
  for (const text of jsonPieces(body)) {
    pieces.push(Buffer.from(text));
    await endOfTurn();
  }
  return Buffer.concat(pieces);
}

/** Reads what `writeRecord` wrote. */
export async function readRecord(text: Buffer): Promise<RecordBody> {
  const body = text.length < LONG_CHARS ? JSON.parse(text.toString()) : await parseOwnJson(text, endOfTurn);
  return body as RecordBody;
}
