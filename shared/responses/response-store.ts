import { endOfTurn } from '../concurrency/index.ts';
import { StoreError } from '../discovery/index.ts';
import { isLongJson, jsonPieces, parseOwnJson } from '../protocol/index.ts';

/** One JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A response that can be found again. */
export interface StoredResponse {
  /** Id, `resp_<32 hex>`. */
  readonly id: string;
  /** Key that made it; `''` if keys are not required. Another owner cannot see, use or delete it. */
  readonly owner: string;
  /** Response object as its client read it. */
  readonly response: JsonObject;
  /**
   * Lengths of the pieces in which each item of the answer was sent, in UTF-16 units of its text: a replay numbers its
   * events as the stream did. Absent for answers that were not streamed.
   */
  readonly pieces?: readonly (readonly number[])[];
  /** Every item of the input, those of earlier responses first, so that a follow-up needs no other record. */
  readonly input: readonly JsonObject[];
}

/**
 * Store that keeps responses for a while. Other owners cannot see a record. An expired record counts as gone, whether
 * it has been cleared away or not.
 *
 * Every method ends within the deadline of the store, or earlier if `signal` aborts, and then rejects with a
 * `ResponseStoreError` or the signal's reason.
 */
export interface ResponseStore {
  /**
   * Stores a response; a stored response is never replaced.
   * @throws ResponseStoreError `conflict` if the id is taken, `too_large`, `unavailable`, `misconfigured`
   */
  put(response: StoredResponse, signal?: AbortSignal): Promise<void>;
  /** Returns a response; undefined if there is none, it has expired, or it belongs to another owner. */
  get(id: string, owner: string, signal?: AbortSignal): Promise<StoredResponse | undefined>;
  /** Deletes a response. Returns false if `owner` has no such response. */
  delete(id: string, owner: string, signal?: AbortSignal): Promise<boolean>;
  close(): void;
}

/** Reason why a store did not do what was asked. */
export type ResponseStoreErrorCode = 'conflict' | 'too_large' | 'unavailable' | 'misconfigured';

/** A failure of the store itself. `message` is one line for operators, never for clients. */
export class ResponseStoreError extends StoreError<ResponseStoreErrorCode> {
  override readonly name = 'ResponseStoreError';
}

/** Fields of a record beside its key. */
type RecordBody = Omit<StoredResponse, 'id' | 'owner'>;

/**
 * Length above which texts are written and read in pieces, with a turn of the event loop for each: this many take 3 ms.
 */
const LONG_CHARS = 256 * 1024;

/** Returns the text of a record, as UTF-8. */
export async function writeRecord(body: RecordBody): Promise<Buffer> {
  if (!isLongJson(body, LONG_CHARS)) return Buffer.from(JSON.stringify(body));
  const pieces: Buffer[] = [];
  for (const text of jsonPieces(body)) {
    pieces.push(Buffer.from(text));
    await endOfTurn();
  }
  return Buffer.concat(pieces);
}

/** Reads the text that `writeRecord` wrote. */
export async function readRecord(text: Buffer): Promise<RecordBody> {
  const body = text.length < LONG_CHARS ? JSON.parse(text.toString()) : await parseOwnJson(text, endOfTurn);
  return body as RecordBody;
}
