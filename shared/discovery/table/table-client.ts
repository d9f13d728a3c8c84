import type * as Sdk from '@aws-sdk/client-dynamodb';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../clock/index.ts';
import { type DynamoDbSdk, loadSdk } from './sdk.ts';
import type { TableTime } from './table-time.ts';

export interface TableOptions {
  readonly tableName: string;
  /** Endpoint. @default the SDK's, by region */
  readonly endpoint?: string | undefined;
  /** Region. @default the SDK's (`AWS_REGION`, profile); `us-east-1` with an endpoint */
  readonly region?: string | undefined;
}

/** Calls on tables, by their names in DynamoDB's protocol. */
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

/** A client that makes single calls, repeats none, and reads the `Date` of every answer. */
export interface TableClient {
  /**
   * Makes a call.
   * @throws Error with the service's name of its refusal and the details; otherwise the network's failure
   */
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

/** Makes a client of the SDK, which finds credentials in every usual place; loads the SDK. */
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
      return (await client.send(new Command(input), { abortSignal })) as never; // the answer is the one of that command
    },
    destroy: () => client.destroy(),
  };
}

/** The SDK client. It makes one attempt per call, because rooms repeat calls themselves, within their own deadlines. */
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

/** Passes the `Date` header of every answer, also of refusals, to the table's time. */
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
