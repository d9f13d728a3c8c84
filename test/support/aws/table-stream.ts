import { systemClock } from '../../../shared/clock/index.ts';

/** The stream of a table as Lambda reads it for a function ("Process DynamoDB records with Lambda"). */
export interface TableStreamOptions {
  /** Endpoint of a server with DynamoDB's streams. */
  readonly endpoint: string;
  readonly tableName: string;
  /** Pattern of the records that the function gets, as in `FilterCriteria`. */
  readonly pattern: Pattern;
  /** Longest time in which records are collected. */
  readonly windowMs: number;
  readonly batchMax: number;
  /** Invokes the function. Rejects if the function failed. */
  invoke(event: object): Promise<unknown>;
}

/** A mapping from the stream to the function, until it is closed. */
export interface TableStream {
  /** Number of records of each batch that the function got. */
  readonly batches: readonly number[];
  close(): Promise<void>;
}

/** The part of EventBridge's patterns that is needed here: exact texts, and beginnings of texts. */
export type Pattern = { readonly [name: string]: Pattern | readonly (string | { readonly prefix: string })[] };

interface StreamRecord {
  readonly eventName: string;
  readonly dynamodb: { readonly SequenceNumber: string };
}

/** Lambda reads each shard four times a second. */
const POLL_MS = 250;
const FAKE_SIGNATURE = {
  'x-amz-date': '20260101T000000Z',
  authorization:
    'AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
};

/** Makes a stream of keys of the table, as its construct does. Returns a mapping of what is written from now on. */
export async function startTableStream(options: TableStreamOptions): Promise<TableStream> {
  const { endpoint, tableName } = options;
  await call(endpoint, 'DynamoDB_20120810.UpdateTable', {
    TableName: tableName,
    StreamSpecification: { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' },
  });
  const stop = new AbortController();
  const batches: number[] = [];
  const pumping = pump(options, batches, stop.signal);
  return {
    batches,
    close: async () => {
      stop.abort(new Error('the mapping is closed'));
      await pumping;
    },
  };
}

async function pump(options: TableStreamOptions, batches: number[], signal: AbortSignal): Promise<void> {
  let waiting: StreamRecord[] = [];
  let sinceMs = 0;
  let after: string | undefined;
  while (!signal.aborted) {
    const read = await recordsAfter(options, after);
    after = read.at(-1)?.dynamodb.SequenceNumber ?? after;
    if (waiting.length === 0) sinceMs = performance.now();
    waiting.push(...read.filter((record) => matches(record, options.pattern)));
    while (
      waiting.length >= options.batchMax ||
      (waiting.length > 0 && performance.now() - sinceMs >= options.windowMs)
    ) {
      const batch = waiting.slice(0, options.batchMax);
      batches.push(batch.length);
      waiting = waiting.slice(await takenOf(batch, options));
      if (signal.aborted) return;
    }
    await systemClock.sleep(POLL_MS, signal).catch(() => undefined); // it is closed
  }
}

/** Returns how many records of a batch are done: those before the first that the function names. */
async function takenOf(batch: readonly StreamRecord[], { invoke }: TableStreamOptions): Promise<number> {
  try {
    const answer = (await invoke({ Records: batch })) as { batchItemFailures: { itemIdentifier: string }[] };
    const failed = new Set(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    const first = batch.findIndex(({ dynamodb }) => failed.has(dynamodb.SequenceNumber));
    return first < 0 ? batch.length : first;
  } catch {
    return 0; // Lambda hands out the whole batch again
  }
}

async function recordsAfter(
  { endpoint, tableName }: TableStreamOptions,
  after: string | undefined,
): Promise<readonly StreamRecord[]> {
  const ask = (name: string, body: object) => call(endpoint, `DynamoDBStreams_20120810.${name}`, body);
  const { Streams = [] } = (await ask('ListStreams', { TableName: tableName })) as {
    Streams?: { StreamArn: string }[];
  };
  const StreamArn = Streams[0]?.StreamArn;
  if (StreamArn === undefined) return [];
  const { StreamDescription } = (await ask('DescribeStream', { StreamArn })) as {
    StreamDescription: { Shards?: { ShardId: string }[] };
  };
  const records: StreamRecord[] = [];
  for (const { ShardId } of StreamDescription.Shards ?? []) {
    const from =
      after === undefined
        ? { ShardIteratorType: 'TRIM_HORIZON' }
        : { ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: after };
    const { ShardIterator } = (await ask('GetShardIterator', { StreamArn, ShardId, ...from })) as {
      ShardIterator: string;
    };
    const { Records } = (await ask('GetRecords', { ShardIterator })) as { Records: StreamRecord[] };
    records.push(...Records);
  }
  return records;
}

/** Returns whether a record has what the pattern names. */
export function matches(value: unknown, pattern: Pattern): boolean {
  return Object.entries(pattern).every(([name, wanted]) => {
    const found = (value as Readonly<Record<string, unknown>> | undefined)?.[name];
    if (!Array.isArray(wanted)) return matches(found, wanted as Pattern);
    return wanted.some((each: string | { readonly prefix: string }) =>
      typeof each === 'string' ? found === each : typeof found === 'string' && found.startsWith(each.prefix),
    );
  });
}

async function call(endpoint: string, target: string, body: object): Promise<unknown> {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: { ...FAKE_SIGNATURE, 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': target },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${target}: ${text}`);
  return JSON.parse(text);
}
