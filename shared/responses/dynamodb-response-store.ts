import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Clock, Random } from '../clock/index.ts';
import { inBatches, withDeadline } from '../concurrency/index.ts';
import { type Item, type ItemKey, Table, type TableOptions, type TablePlace, TableTime } from '../discovery/index.ts';
import {
  type ResponseStore,
  ResponseStoreError,
  readRecord,
  type StoredResponse,
  writeRecord,
} from './response-store.ts';

interface DynamoDbResponseStoreOptions extends TableOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Time to live of a record. */
  readonly ttlMs: number;
}

/** Longest time of one operation, including retries. */
const OPERATION_TIMEOUT_MS = 3000;
const REQUEST_TIMEOUT_MS = 2000;

const compress = promisify(gzip);
const decompress = promisify(gunzip);
/** Largest size of one record: JSON as UTF-8. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Largest number of items of one record. */
const PIECES_MAX = 64;
/** Largest piece of a body in one item: leaves room for the other attributes below 400 KB. */
const PIECE_BYTES_MAX = 350 * 1024;
const MS_PER_SECOND = 1000;

/**
 * Keeps responses in a DynamoDB table. Bodies are gzipped JSON. A body that does not fit into one item continues in
 * further items of the same partition, so no item comes near DynamoDB's limit of 400 KB, and this table is all that is
 * needed.
 *
 *     pk          sk                  attributes
 *     {id}        head                owner, version, chunks, expiresAtMs, ttl, body (first piece)
 *     {id}        {version}#{0001}    ttl, body (a further piece)
 *
 * The head is written last and names the version of its pieces. So a reader sees a whole response or none, and a
 * replaced response leaves pieces that no one reads until they expire. `ttl` (Unix seconds) only clears garbage;
 * whether a record has expired is decided by `expiresAtMs` and the reader's own clock.
 */
export class DynamoDbResponseStore implements ResponseStore {
  readonly #table: Table;
  readonly #options: DynamoDbResponseStoreOptions;

  private constructor(table: Table, options: DynamoDbResponseStoreOptions) {
    this.#table = table;
    this.#options = options;
  }

  /** Opens the store. The first operation is the first to touch the table. */
  static async open(options: DynamoDbResponseStoreOptions): Promise<DynamoDbResponseStore> {
    const { clock, random } = options;
    const dependencies = { clock, random, time: new TableTime(clock), requestTimeoutMs: REQUEST_TIMEOUT_MS };
    return new DynamoDbResponseStore(await Table.open(placeOf(options), dependencies), options);
  }

  put(response: StoredResponse, given?: AbortSignal): Promise<void> {
    const { clock, random, ttlMs } = this.#options;
    const { id, owner } = response;
    const version = random.instanceId();
    return this.#bounded(given, async (signal) => {
      const [first, ...further] = await toPieces(response);
      const expiresAtMs = clock.wallMs() + ttlMs;
      const ttl = Math.ceil(expiresAtMs / MS_PER_SECOND);
      await inBatches([...further.entries()], async ([at, body]) => {
        const key = pieceKey(id, version, at + 1);
        await this.#attempt(signal, (each) => this.#table.put({ ttl, body }, { key }, each));
      });
      // there is always at least one
      const head = { owner, version, chunks: further.length + 1, expiresAtMs, ttl, body: first! };
      const change = {
        key: headKey(id),
        // No other response has this id, except the result of this very write, if an earlier attempt succeeded.
        condition: 'attribute_not_exists(pk) OR version = :version OR expiresAtMs <= :now',
        values: { ':version': version, ':now': clock.wallMs() },
      };
      if (await this.#attempt(signal, (each) => this.#table.put(head, change, each))) return;
      throw new ResponseStoreError('conflict', `response ${id} already exists`);
    });
  }

  get(id: string, owner: string, given?: AbortSignal): Promise<StoredResponse | undefined> {
    return this.#bounded(given, async (signal) => {
      const head = await this.#headOf(id, owner, signal);
      if (head === undefined) return undefined;
      const prefix = `${head.version}#`;
      const further =
        head.pieces === 1 ? [] : await this.#attempt(signal, (each) => this.#table.query(id, prefix, each));
      if (further.length + 1 !== head.pieces) return undefined; // it is being deleted right now
      return { id, owner, ...(await readPieces([head.body, ...further.map(bodyOf)])) };
    });
  }

  /** Deletes the pieces first and the head last, so that a deletion that failed half way can be repeated. */
  delete(id: string, owner: string, given?: AbortSignal): Promise<boolean> {
    return this.#bounded(given, async (signal) => {
      const head = await this.#headOf(id, owner, signal);
      if (head === undefined) return false;
      const keys = Array.from({ length: head.pieces - 1 }, (_, at) => pieceKey(id, head.version, at + 1));
      await inBatches(keys, async (key) => {
        await this.#attempt(signal, (each) => this.#table.delete({ key }, each));
      });
      const change = { key: headKey(id), condition: 'version = :version', values: { ':version': head.version } };
      return this.#attempt(signal, (each) => this.#table.delete(change, each));
    });
  }

  close(): void {
    this.#table.close();
  }

  /** Returns the head of a record that `owner` may see. */
  async #headOf(id: string, owner: string, signal: AbortSignal): Promise<Head | undefined> {
    const item = await this.#attempt(signal, (each) => this.#table.get(headKey(id), each));
    if (item === undefined || item.owner?.S !== owner) return undefined;
    if (Number(item.expiresAtMs?.N) <= this.#options.clock.wallMs()) return undefined;
    return { version: item.version?.S ?? '', pieces: Number(item.chunks?.N), body: bodyOf(item) };
  }

  #attempt<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#table.attempt(OPERATION_TIMEOUT_MS, signal, work);
  }

  /** Runs a whole operation within its deadline. */
  async #bounded<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const lateMessage = `no answer within ${OPERATION_TIMEOUT_MS} ms`;
    const { clock } = this.#options;
    try {
      return await withDeadline({ clock, timeoutMs: OPERATION_TIMEOUT_MS, signal: given, lateMessage }, work);
    } catch (thrown) {
      given?.throwIfAborted();
      throw this.#table.explain(thrown);
    }
  }
}

interface Head {
  readonly version: string;
  readonly pieces: number;
  readonly body: Uint8Array;
}

function headKey(id: string): ItemKey {
  return { pk: id, sk: 'head' };
}

/** Returns the sort key of piece number `index`, from 1. */
function pieceKey(id: string, version: string, index: number): ItemKey {
  return { pk: id, sk: `${version}#${String(index).padStart(4, '0')}` };
}

function bodyOf(item: Item): Uint8Array {
  return item.body?.B ?? new Uint8Array(0);
}

/** Cuts the body of a record into pieces; at least one. */
async function toPieces({ id, owner: _owner, ...body }: StoredResponse): Promise<readonly Uint8Array[]> {
  const text = await writeRecord(body);
  const zipped = text.length > BODY_BYTES_MAX ? undefined : await compress(text);
  if (zipped === undefined || zipped.length > PIECES_MAX * PIECE_BYTES_MAX) {
    throw new ResponseStoreError('too_large', `response ${id} has ${text.length} bytes, more than the table accepts`);
  }
  return Array.from({ length: Math.ceil(zipped.length / PIECE_BYTES_MAX) }, (_, at) =>
    zipped.subarray(at * PIECE_BYTES_MAX, (at + 1) * PIECE_BYTES_MAX),
  );
}

async function readPieces(pieces: readonly Uint8Array[]) {
  return readRecord(await decompress(Buffer.concat(pieces), { maxOutputLength: BODY_BYTES_MAX }));
}

/** Name of the table of responses in its messages. */
function placeOf({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'responses table',
    setting: 'STATOR_RESPONSES_TABLE',
    toError: (code, message, cause) => new ResponseStoreError(code, message, cause),
  };
}
