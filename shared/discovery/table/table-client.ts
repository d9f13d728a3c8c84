import type * as Sdk from '@aws-sdk/client-dynamodb';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../clock/index.ts';
import { type DynamoDbSdk, loadSdk } from './sdk.ts';
import type { TableTime } from './table-time.ts';

export interface TableOptions {
  readonly tableName: string;
  /** @default the SDK's, by region */
  readonly endpoint?: string | undefined;
  /** @default the SDK's (`AWS_REGION`, profile); `us-east-1` with an endpoint */
  readonly region?: string | undefined;
}

/** The calls that are made on tables, by their names in DynamoDB's protocol. */
export interface TableCalls {
  readonly BatchGetItem: {
    readonly input: Sdk.BatchGetItemCommandInput;
    readonly output: Sdk.BatchGetItemCommandOutput;
  };
  readonly DeleteItem: { readonly input: Sdk.DeleteItemCommandInput; readonly output: Sdk.DeleteItemCommandOutput };
  readonly GetItem: { readonly input: Sdk.GetItemCommandInput; readonly output: Sdk.GetItemCommandOutput };
  readonly PutItem: { readonly input: Sdk.PutItemCommandInput; readonly output: Sdk.PutItemCommandOutput };
  readonly Query: { readonly input: Sdk.QueryCommandInput; readonly output: Sdk.QueryCommandOutput };
  readonly Scan: { readonly input: Sdk.ScanCommandInput; readonly output: Sdk.ScanCommandOutput };
  readonly TransactWriteItems: {
    readonly input: Sdk.TransactWriteItemsCommandInput;
    readonly output: Sdk.TransactWriteItemsCommandOutput;
  };
  readonly UpdateItem: { readonly input: Sdk.UpdateItemCommandInput; readonly output: Sdk.UpdateItemCommandOutput };
}

/** Makes single calls, without repeating any, and observes the `Date` of every answer. */
export interface TableClient {
  /** @throws Error with the service's name for its refusal, and what came with it; otherwise what the network failed of */
  call<Name extends keyof TableCalls>(
    name: Name,
    input: TableCalls[Name]['input'],
    signal: AbortSignal,
  ): Promise<Omit<TableCalls[Name]['output'], '$metadata'>>;
  destroy(): void;
}

export interface TableClientDependencies {
  readonly clock: Clock;
  readonly time: TableTime;
  /** Longest wait for one answer. */
  readonly requestTimeoutMs: number;
}

/** A client of the SDK, which finds credentials wherever there are some; loads the SDK. */
export async function openSdkClient(
  place: Pick<TableOptions, 'endpoint' | 'region'>,
  dependencies: TableClientDependencies,
): Promise<TableClient> {
  const sdk = await loadSdk();
  const client = connect(sdk, place, dependencies.requestTimeoutMs);
  readTime(client, dependencies);
  return {
    async call(name, input, abortSignal) {
      const Command = sdk[`${name}Command`] as new (input: object) => Parameters<DynamoDBClient['send']>[0];
      return (await client.send(new Command(input), { abortSignal })) as never; // the answer of that command
    },
    destroy: () => client.destroy(),
  };
}

/** The SDK client. One attempt per call: rooms repeat by themselves, within their own deadlines. */
export function connect(
  sdk: DynamoDbSdk,
  options: Pick<TableOptions, 'endpoint' | 'region'>,
  requestTimeoutMs: number,
): DynamoDBClient {
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
function readTime(client: DynamoDBClient, { clock, time }: TableClientDependencies): void {
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
