import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock, Random } from '../../clock/index.ts';
import type { DiscoveryError } from '../discovery-error.ts';
import type { ItemKey } from './schema.ts';
import { type DynamoDbSdk, loadSdk } from './sdk.ts';
import { InterruptedCall, isConditionFailure, type TablePlace, toTableError } from './table-errors.ts';
import type { TableTime } from './table-time.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

/** A write of one item: expression, its names and values, and the condition it depends on. */
export interface ItemChange {
  readonly key: ItemKey;
  readonly condition?: string;
  readonly names?: Readonly<Record<string, string>>;
  readonly values?: Readonly<Record<string, string | number>>;
}

export interface TableOptions {
  readonly tableName: string;
  /** @default the SDK's, by region */
  readonly endpoint?: string;
  /** @default the SDK's (`AWS_REGION`, profile); `us-east-1` with an endpoint */
  readonly region?: string;
}

export interface TableDependencies {
  readonly clock: Clock;
  readonly random: Random;
  readonly time: TableTime;
  /** Longest wait for one answer. */
  readonly requestTimeoutMs: number;
}

const FIRST_RETRY_MS = 50;
const RETRY_MS_MAX = 1000;
/** A call that fails this long after its deadline was not waited for: the process stood still meanwhile. */
const STANDSTILL_MS = 1000;

/** The calls that discovery makes on its table. Every call has a deadline; the SDK is loaded with the first table. */
export class DiscoveryTable {
  readonly #sdk: DynamoDbSdk;
  readonly #client: DynamoDBClient;
  readonly #place: TablePlace;
  readonly #options: TableDependencies;

  private constructor(sdk: DynamoDbSdk, client: DynamoDBClient, place: TablePlace, options: TableDependencies) {
    this.#sdk = sdk;
    this.#client = client;
    this.#place = place;
    this.#options = options;
  }

  static async open(options: TableOptions, dependencies: TableDependencies): Promise<DiscoveryTable> {
    const sdk = await loadSdk();
    const client = connect(sdk, options, dependencies.requestTimeoutMs);
    readTime(client, dependencies);
    const place = { tableName: options.tableName, endpoint: options.endpoint, region: options.region };
    return new DiscoveryTable(sdk, client, place, dependencies);
  }

  /** Every item under `pk` whose sort key starts with `sortPrefix`, strongly consistent. */
  async query(pk: string, sortPrefix: string | undefined, signal: AbortSignal): Promise<Item[]> {
    const items: Item[] = [];
    let start: Record<string, AttributeValue> | undefined;
    do {
      const command = new this.#sdk.QueryCommand({
        TableName: this.#place.tableName,
        ConsistentRead: true,
        KeyConditionExpression: sortPrefix === undefined ? 'pk = :pk' : 'pk = :pk AND begins_with(sk, :prefix)',
        ExpressionAttributeValues: {
          ':pk': { S: pk },
          ...(sortPrefix === undefined ? {} : { ':prefix': { S: sortPrefix } }),
        },
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      });
      const page = await this.#bounded(signal, (abortSignal) => this.#client.send(command, { abortSignal }));
      items.push(...(page.Items ?? []));
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
    return items;
  }

  /** Applies an update expression. False when the condition does not hold. */
  update(expression: string, change: ItemChange, signal: AbortSignal): Promise<boolean> {
    const command = new this.#sdk.UpdateItemCommand({ ...this.#input(change), UpdateExpression: expression });
    return this.#write(signal, (abortSignal) => this.#client.send(command, { abortSignal }));
  }

  /** Deletes an item. False when the condition does not hold. */
  delete(change: ItemChange, signal: AbortSignal): Promise<boolean> {
    const command = new this.#sdk.DeleteItemCommand(this.#input(change));
    return this.#write(signal, (abortSignal) => this.#client.send(command, { abortSignal }));
  }

  /**
   * Repeats `work` with back-off while the table cannot be reached or throttles, for `timeoutMs` in all. Rejects with a
   * `DiscoveryError` that says what to do, or with the signal's reason.
   */
  async attempt<T>(timeoutMs: number, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, random } = this.#options;
    const deadlineMs = clock.nowMs() + timeoutMs;
    for (let delayMs = FIRST_RETRY_MS; ; delayMs = Math.min(2 * delayMs, RETRY_MS_MAX)) {
      signal.throwIfAborted();
      try {
        return await work(signal);
      } catch (thrown) {
        signal.throwIfAborted();
        const error = toTableError(thrown, this.#place);
        const pauseMs = delayMs * (0.5 + random.next() / 2);
        if (error.code !== 'unavailable' || clock.nowMs() + pauseMs >= deadlineMs) throw error;
        await clock.sleep(pauseMs, signal);
      }
    }
  }

  /** The failure of a single call as a `DiscoveryError`, for callers that repeat by themselves. */
  explain(thrown: unknown): DiscoveryError {
    return toTableError(thrown, this.#place);
  }

  close(): void {
    this.#client.destroy();
  }

  #input(change: ItemChange) {
    const { key, condition, names, values } = change;
    const marshalled = Object.entries(values ?? {}).map(([name, value]) => [name, marshal(value)] as const);
    return {
      TableName: this.#place.tableName,
      Key: { pk: { S: key.pk }, sk: { S: key.sk } },
      ...(condition === undefined ? {} : { ConditionExpression: condition }),
      ...(names === undefined ? {} : { ExpressionAttributeNames: names }),
      ...(marshalled.length === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(marshalled) }),
    };
  }

  async #write(signal: AbortSignal, send: (signal: AbortSignal) => Promise<unknown>): Promise<boolean> {
    try {
      await this.#bounded(signal, send);
      return true;
    } catch (error) {
      if (isConditionFailure(error)) return false;
      throw error;
    }
  }

  /** Races the call against its deadline: the SDK looks for credentials without regard to the signal. */
  async #bounded<T>(signal: AbortSignal, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const { clock, requestTimeoutMs } = this.#options;
    const sentMs = clock.nowMs();
    const abort = new AbortController();
    const onAbort = (): void => abort.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const deadline = clock.after(requestTimeoutMs, () =>
      abort.abort(new Error(`no answer within ${requestTimeoutMs} ms`)),
    );
    const aborted = new Promise<never>((_, reject) => {
      abort.signal.addEventListener('abort', () => reject(abort.signal.reason), { once: true });
    });
    try {
      return await Promise.race([send(abort.signal), aborted]);
    } catch (error) {
      const lateMs = clock.nowMs() - sentMs - requestTimeoutMs;
      throw lateMs > STANDSTILL_MS && !signal.aborted ? new InterruptedCall(error) : error;
    } finally {
      deadline.cancel();
      signal.removeEventListener('abort', onAbort);
    }
  }
}

/** The SDK client. One attempt per call: this room repeats by itself, within its own deadlines. */
export function connect(sdk: DynamoDbSdk, options: TableOptions, requestTimeoutMs: number): DynamoDBClient {
  const region =
    options.region ?? (options.endpoint === undefined ? undefined : (process.env.AWS_REGION ?? 'us-east-1'));
  return new sdk.DynamoDBClient({
    ...(region === undefined ? {} : { region }),
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
    maxAttempts: 1,
    requestHandler: { connectionTimeout: requestTimeoutMs, requestTimeout: requestTimeoutMs },
  });
}

/** Feeds the `Date` header of every answer, also of refusals, into the table's time. */
function readTime(client: DynamoDBClient, { clock, time }: TableDependencies): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const sentMs = clock.nowMs();
      const result = await next(args);
      time.observe(dateHeaderOf(result.response), sentMs, clock.nowMs());
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'readTableTime' },
  );
}

function dateHeaderOf(response: unknown): string | undefined {
  const headers = (response as { readonly headers?: Readonly<Record<string, string>> } | undefined)?.headers;
  return headers?.date;
}

function marshal(value: string | number): AttributeValue {
  return typeof value === 'string' ? { S: value } : { N: String(value) };
}
