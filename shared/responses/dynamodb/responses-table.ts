import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { type DynamoDbSdk, loadDynamoDbSdk } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { ResponseStoreError } from '../response-store-error.ts';
import { HEAD_SORT_KEY } from './table-schema.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

/** A condition on an item, with the values and reserved names it speaks of. */
export interface Condition {
  readonly expression: string;
  readonly names?: Record<string, string>;
  readonly values: Record<string, AttributeValue>;
}

export interface ResponsesTableOptions {
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
export class ResponsesTable {
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
