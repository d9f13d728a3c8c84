import { endOfTurn } from '../concurrency/index.ts';
import { StoreError } from '../discovery/index.ts';
import { isLongJson, jsonPieces, parseOwnJson } from '../protocol/index.ts';

/** One JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A response that can be found again. */
export interface StoredResponse {
  /** `resp_<32 hex>`. */
  readonly id: string;
  /** The key that made it; `''` where nobody needs one. Another owner cannot see, use or delete it. */
  readonly owner: string;
  /** The response object as its client read it. */
  readonly response: JsonObject;
  /**
   * Lengths of the pieces in which each item of the answer was told, in UTF-16 units of its text: a replay numbers its events as
   * the stream did. Absent for answers that were told whole.
   */
  readonly pieces?: readonly (readonly number[])[];
  /** Every item that went into it, those of earlier responses first: a follow-up needs no other record. */
  readonly input: readonly JsonObject[];
}

/**
 * Where responses are kept for a while. Records of one owner are invisible to all others, and records past their time are
 * gone, whether cleared away or not.
 *
 * Every method ends within the deadline that the store was made with, or earlier when `signal` aborts, and then rejects with
 * a `ResponseStoreError` or the signal's reason.
 */
export interface ResponseStore {
  /**
   * Keeps a response; nothing that is kept is ever replaced.
   * @throws ResponseStoreError `conflict` when the id is taken, `too_large`, `unavailable`, `misconfigured`
   */
  put(response: StoredResponse, signal?: AbortSignal): Promise<void>;
  /** Undefined when there is none, it has expired, or it is another owner's. */
  get(id: string, owner: string, signal?: AbortSignal): Promise<StoredResponse | undefined>;
  /** False when there was nothing to delete, as seen by `owner`. */
  delete(id: string, owner: string, signal?: AbortSignal): Promise<boolean>;
  close(): void;
}

/** Why a store did not do what it was asked. */
export type ResponseStoreErrorCode = 'conflict' | 'too_large' | 'unavailable' | 'misconfigured';

/** A failure of the store itself. `message` is one line for operators, never for clients. */
export class ResponseStoreError extends StoreError<ResponseStoreErrorCode> {
  override readonly name = 'ResponseStoreError';
}

/** What a record says beside its key. */
type RecordBody = Omit<StoredResponse, 'id' | 'owner'>;

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
