import type * as Sdk from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../clock/index.ts';
import type { TableTime } from './table-time.ts';

/** The calls that are made on tables, by their names in DynamoDB's protocol. */
export interface TableCalls {
  readonly BatchGetItem: {
    readonly input: Sdk.BatchGetItemCommandInput;
    readonly output: Sdk.BatchGetItemCommandOutput;
  };
  readonly DeleteItem: { readonly input: Sdk.DeleteItemCommandInput; readonly output: Sdk.DeleteItemCommandOutput };
  readonly GetItem: { readonly input: Sdk.GetItemCommandInput; readonly output: Sdk.GetItemCommandOutput };
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
