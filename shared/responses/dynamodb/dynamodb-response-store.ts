import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Random } from '../../clock/index.ts';
import { readRecord, writeRecord } from '../record-text.ts';
import { ResponseStoreError } from '../response-store-error.ts';
import type { ResponseStore, StoredResponse } from '../types.ts';
import { type Condition, type Item, ResponsesTable, type ResponsesTableOptions } from './responses-table.ts';
import { HEAD_SORT_KEY, pieceSortKey, toPieces } from './table-schema.ts';

export interface DynamoDbResponseStoreOptions extends ResponsesTableOptions {
  readonly random: Random;
  /** Life of a record. */
  readonly ttlMs: number;
}

const compress = promisify(gzip);
const decompress = promisify(gunzip);
/** JSON of one record, as UTF-8. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Items of one record. */
const PIECES_MAX = 64;
/** Writes of one record that are under way together. */
const WRITES_MAX = 4;
const MS_PER_SECOND = 1000;

/** Keeps responses in a DynamoDB table (`RESPONSES_TABLE_SCHEMA`). */
export class DynamoDbResponseStore implements ResponseStore {
  readonly #table: ResponsesTable;
  readonly #options: DynamoDbResponseStoreOptions;

  private constructor(table: ResponsesTable, options: DynamoDbResponseStoreOptions) {
    this.#table = table;
    this.#options = options;
  }

  /** Loads the SDK. The table itself is first touched by the first operation. */
  static async open(options: DynamoDbResponseStoreOptions): Promise<DynamoDbResponseStore> {
    return new DynamoDbResponseStore(await ResponsesTable.open(options), options);
  }

  put(response: StoredResponse, given?: AbortSignal): Promise<void> {
    return this.#table.bounded(given, async (signal) => {
      const [first, ...further] = await this.#toPieces(response);
      const { id, owner } = response;
      const version = this.#options.random.instanceId();
      const expiresAtMs = this.#options.clock.wallMs() + this.#options.ttlMs;
      const ttl = { N: String(Math.ceil(expiresAtMs / MS_PER_SECOND)) };
      await inBatches(further, async (body, at) => {
        await this.#table.put(
          { pk: { S: id }, sk: { S: pieceSortKey(version, at + 1) }, ttl, body: { B: body } },
          undefined,
          signal,
        );
      });
      const head = {
        pk: { S: id },
        sk: { S: HEAD_SORT_KEY },
        owner: { S: owner },
        version: { S: version },
        chunks: { N: String(further.length + 1) },
        expiresAtMs: { N: String(expiresAtMs) },
        ttl,
        body: { B: first! }, // there is always one
      };
      if (await this.#table.put(head, this.#isFree(version), signal)) return;
      throw new ResponseStoreError('conflict', `there is a response ${id} already`);
    });
  }

  get(id: string, owner: string, given?: AbortSignal): Promise<StoredResponse | undefined> {
    return this.#table.bounded(given, async (signal) => {
      const head = await this.#headOf(id, owner, signal);
      if (head === undefined) return undefined;
      const further = head.pieces === 1 ? [] : await this.#table.query(id, `${head.version}#`, signal);
      if (further.length + 1 !== head.pieces) return undefined; // it is just being deleted
      const text = await decompress(Buffer.concat([head.body, ...further.map(bodyOf)]), {
        maxOutputLength: BODY_BYTES_MAX,
      });
      return { id, owner, ...(await readRecord(text)) };
    });
  }

  /** Pieces go first and the head last: a deletion that failed half way can be repeated. */
  delete(id: string, owner: string, given?: AbortSignal): Promise<boolean> {
    return this.#table.bounded(given, async (signal) => {
      const head = await this.#headOf(id, owner, signal);
      if (head === undefined) return false;
      const sortKeys = Array.from({ length: head.pieces - 1 }, (_, at) => pieceSortKey(head.version, at + 1));
      await inBatches(sortKeys, async (sk) => {
        await this.#table.delete(id, sk, undefined, signal);
      });
      const condition = { expression: 'version = :version', values: { ':version': { S: head.version } } };
      return this.#table.delete(id, HEAD_SORT_KEY, condition, signal);
    });
  }

  close(): void {
    this.#table.close();
  }

  async #toPieces({ id, owner: _owner, ...body }: StoredResponse): Promise<readonly Uint8Array[]> {
    const text = await writeRecord(body);
    if (text.length > BODY_BYTES_MAX) throw tooLarge(id, text.length);
    const pieces = toPieces(await compress(text));
    if (pieces.length > PIECES_MAX) throw tooLarge(id, text.length);
    return pieces;
  }

  /** The head of a record that `owner` may see. */
  async #headOf(id: string, owner: string, signal: AbortSignal): Promise<Head | undefined> {
    const item = await this.#table.getHead(id, signal);
    if (item === undefined || item.owner?.S !== owner) return undefined;
    if (Number(item.expiresAtMs?.N) <= this.#options.clock.wallMs()) return undefined;
    return { version: item.version?.S ?? '', pieces: Number(item.chunks?.N), body: bodyOf(item) };
  }

  /** Nobody has the id, unless it is this very write, of which an earlier attempt has come through. */
  #isFree(version: string): Condition {
    return {
      expression: 'attribute_not_exists(pk) OR version = :version OR expiresAtMs <= :now',
      values: { ':version': { S: version }, ':now': { N: String(this.#options.clock.wallMs()) } },
    };
  }
}

interface Head {
  readonly version: string;
  readonly pieces: number;
  readonly body: Uint8Array;
}

function bodyOf(item: Item): Uint8Array {
  return item.body?.B ?? new Uint8Array(0);
}

function tooLarge(id: string, bytes: number): ResponseStoreError {
  return new ResponseStoreError('too_large', `response ${id} has ${bytes} bytes, more than the table takes`);
}

async function inBatches<T>(things: readonly T[], work: (thing: T, at: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < things.length; from += WRITES_MAX) {
    await Promise.all(things.slice(from, from + WRITES_MAX).map((thing, at) => work(thing, from + at)));
  }
}
