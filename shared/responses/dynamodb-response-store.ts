import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock, Random } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import { type DynamoDbSdk, loadDynamoDbSdk } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import {
  type ResponseStore,
  ResponseStoreError,
  readRecord,
  type StoredResponse,
  writeRecord,
} from './response-store.ts';

/**
 * The table of stored responses. Bodies are gzipped JSON; what does not fit into one item goes on in further items of the same
 * partition, so that no item comes near DynamoDB's 400 KB and nothing but this table is needed.
 *
 *   pk          sk                  attributes
 *   {id}        head                owner, version, chunks, expiresAtMs, ttl, body (first piece)
 *   {id}        {version}#{0001}    ttl, body (a further piece)
 *
 * The head is written last and names the version of its pieces: a reader sees a whole response or none, and a replaced
 * response leaves pieces that nobody reads until their time is over. `ttl` (Unix seconds) only clears garbage; what has expired
 * is told by `expiresAtMs`, by the reader's own clock.
 */
export const RESPONSES_TABLE_SCHEMA = { partitionKey: 'pk', sortKey: 'sk', ttlAttribute: 'ttl' } as const;

const HEAD_SORT_KEY = 'head';

/** Largest piece of a body in one item: leaves room for the other attributes below 400 KB. */
const PIECE_BYTES_MAX = 350 * 1024;

/** Sort key of the piece number `index`, from 1. */
function pieceSortKey(version: string, index: number): string {
  return `${version}#${String(index).padStart(4, '0')}`;
}

/** Cuts a body into pieces; at least one. */
function toPieces(body: Uint8Array): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let from = 0; from < body.length || from === 0; from += PIECE_BYTES_MAX) {
    pieces.push(body.subarray(from, from + PIECE_BYTES_MAX));
  }
  return pieces;
}

type Item = Readonly<Record<string, AttributeValue>>;

/** A condition on an item, with the values and reserved names it speaks of. */
interface Condition {
  readonly expression: string;
  readonly names?: Record<string, string>;
  readonly values: Record<string, AttributeValue>;
}

interface ResponsesTableOptions {
  readonly tableName: string;
  /** @default the SDK's, by region */
  readonly endpoint?: string | undefined;
  /** @default the SDK's (`AWS_REGION`, profile); `us-east-1` with an endpoint */
  readonly region?: string | undefined;
  readonly clock: Clock;
  /** Longest time of one operation, retries and all. @default 3000 */
  readonly operationTimeoutMs?: number;
}

const OPERATION_TIMEOUT_MS = 3000;
const ATTEMPTS_MAX = 3;
/** Refusals that waiting does not heal. */
const REFUSALS = /^(ResourceNotFound|AccessDenied|UnrecognizedClient|Validation|CredentialsProvider|ExpiredToken)/;

/** The calls that the store makes on its table. */
class ResponsesTable {
  readonly #sdk: DynamoDbSdk;
  readonly #client: DynamoDBClient;
  readonly #options: ResponsesTableOptions;

  private constructor(sdk: DynamoDbSdk, options: ResponsesTableOptions) {
    const { endpoint, region = endpoint === undefined ? undefined : (process.env.AWS_REGION ?? 'us-east-1') } = options;
    this.#sdk = sdk;
    this.#options = options;
    this.#client = new sdk.DynamoDBClient({
      ...(region === undefined ? {} : { region }),
      ...(endpoint === undefined ? {} : { endpoint }),
      maxAttempts: ATTEMPTS_MAX,
    });
  }

  static async open(options: ResponsesTableOptions): Promise<ResponsesTable> {
    return new ResponsesTable(await loadDynamoDbSdk(), options);
  }

  /** Writes a whole item. False when the condition does not hold. */
  async put(item: Item, condition: Condition | undefined, signal: AbortSignal): Promise<boolean> {
    const command = new this.#sdk.PutItemCommand({
      TableName: this.#options.tableName,
      Item: { ...item },
      ...conditionInput(condition),
    });
    return this.#conditional(() => this.#client.send(command, { abortSignal: signal }));
  }

  /** Deletes an item. False when the condition does not hold. */
  async delete(pk: string, sk: string, condition: Condition | undefined, signal: AbortSignal): Promise<boolean> {
    const command = new this.#sdk.DeleteItemCommand({
      TableName: this.#options.tableName,
      Key: { pk: { S: pk }, sk: { S: sk } },
      ...conditionInput(condition),
    });
    return this.#conditional(() => this.#client.send(command, { abortSignal: signal }));
  }

  async getHead(pk: string, signal: AbortSignal): Promise<Item | undefined> {
    const command = new this.#sdk.GetItemCommand({
      TableName: this.#options.tableName,
      Key: { pk: { S: pk }, sk: { S: HEAD_SORT_KEY } },
      ConsistentRead: true,
    });
    return (await this.#client.send(command, { abortSignal: signal })).Item;
  }

  /** Every item of a partition whose sort key starts with `sortPrefix`, in order. */
  async query(pk: string, sortPrefix: string, signal: AbortSignal): Promise<readonly Item[]> {
    const items: Item[] = [];
    let start: Record<string, AttributeValue> | undefined;
    do {
      const command = new this.#sdk.QueryCommand({
        TableName: this.#options.tableName,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
        ExpressionAttributeValues: { ':pk': { S: pk }, ':prefix': { S: sortPrefix } },
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      });
      const page = await this.#client.send(command, { abortSignal: signal });
      items.push(...(page.Items ?? []));
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
    return items;
  }

  /**
   * Runs `work` within the operation's deadline. The deadline is raced, because the SDK looks for credentials without regard to
   * a signal. Rejects with a `ResponseStoreError` that says what to do, or with the signal's reason.
   */
  async bounded<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, operationTimeoutMs: timeoutMs = OPERATION_TIMEOUT_MS } = this.#options;
    const lateMessage = `no answer within ${timeoutMs} ms`;
    try {
      return await withDeadline({ clock, timeoutMs, signal: given, lateMessage }, work);
    } catch (thrown) {
      given?.throwIfAborted();
      throw this.#explain(thrown);
    }
  }

  close(): void {
    this.#client.destroy();
  }

  async #conditional(send: () => Promise<unknown>): Promise<boolean> {
    try {
      await send();
      return true;
    } catch (error) {
      if (error instanceof Error && error.name === 'ConditionalCheckFailedException') return false;
      throw error;
    }
  }

  #explain(thrown: unknown): ResponseStoreError {
    if (thrown instanceof ResponseStoreError) return thrown;
    const { tableName, endpoint, region } = this.#options;
    const where = endpoint ?? `the AWS endpoint of ${region ?? process.env.AWS_REGION ?? 'no region'}`;
    const name = thrown instanceof Error ? thrown.name : '';
    const isRefused = REFUSALS.test(name) || /region is missing/i.test(reasonOf(thrown));
    const hint = isRefused
      ? 'Check STATOR_RESPONSES_TABLE, AWS_REGION and the rights on the table'
      : 'Check the network and STATOR_DYNAMODB_ENDPOINT';
    const what = `DynamoDB at ${where}, responses table "${tableName}": ${reasonOf(thrown)}. ${hint}`;
    return new ResponseStoreError(isRefused ? 'misconfigured' : 'unavailable', what, thrown);
  }
}

function conditionInput(condition: Condition | undefined) {
  if (condition === undefined) return {};
  return {
    ConditionExpression: condition.expression,
    ExpressionAttributeValues: condition.values,
    ...(condition.names === undefined ? {} : { ExpressionAttributeNames: condition.names }),
  };
}

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
