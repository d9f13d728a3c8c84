import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** Calls that a process made to a table, and what DynamoDB would charge for them. */
export interface TableUse {
  readonly readRequests: number;
  readonly writeRequests: number;
  /** Units of 4 KB for strongly consistent reads, of 8 KB for eventually consistent ones. */
  readonly readUnits: number;
  /** Units of 1 KB; twice as many in a transaction. */
  readonly writeUnits: number;
}

/** A fault of the table service. */
export interface TableFault {
  /** Delay of each call, in milliseconds. */
  readonly delayMs?: number;
  /** Whether calls get no answer. */
  readonly isSilent?: boolean;
  /** Share of the calls refused for lack of capacity, evenly spread. @default 0 */
  readonly throttledShare?: number;
}

export interface CountingTableProxy {
  readonly url: string;
  /** Returns the use since the last call. */
  take(): TableUse;
  /** Sets the fault from now on. Without an argument, ends it. */
  fail(fault?: TableFault): void;
  close(): Promise<void>;
}

type StoredItem = Readonly<Record<string, AttributeValue & { readonly B?: string }>>;

const READ_UNIT_BYTES = 4096;
const WRITE_UNIT_BYTES = 1024;

const THROTTLED = JSON.stringify({
  __type: 'com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException',
  message: 'The level of configured provisioned throughput for the table was exceeded.',
});

/** Starts a proxy in front of a DynamoDB server that counts calls by the rules of the price list. */
export async function startCountingTableProxy(target: string): Promise<CountingTableProxy> {
  let use = { readRequests: 0, writeRequests: 0, readUnits: 0, writeUnits: 0 };
  const count = (operation: string, asked: string, answered: string): void => {
    const [question, answer] = [JSON.parse(asked), JSON.parse(answered)];
    const perUnit = (bytes: number, isConsistent: boolean): number =>
      Math.max(1, Math.ceil(bytes / READ_UNIT_BYTES)) * (isConsistent ? 1 : 0.5);
    switch (operation) {
      case 'GetItem':
        use.readRequests++;
        use.readUnits += perUnit(bytesOf(answer.Item), question.ConsistentRead === true);
        return;
      case 'Query': {
        const bytes = (answer.Items ?? []).reduce((sum: number, item: StoredItem) => sum + bytesOf(item), 0);
        use.readRequests++;
        use.readUnits += perUnit(bytes, question.ConsistentRead === true);
        return;
      }
      case 'BatchGetItem': {
        const [keys] = Object.values(question.RequestItems as Record<string, { Keys: unknown[] }>);
        const [items = []] = Object.values((answer.Responses ?? {}) as Record<string, StoredItem[]>);
        use.readRequests++;
        for (const item of items) use.readUnits += perUnit(bytesOf(item), false);
        // an absent item costs as much as the smallest one
        use.readUnits += ((keys?.Keys.length ?? 0) - items.length) * 0.5;
        return;
      }
      case 'TransactWriteItems':
        use.writeRequests++;
        for (const part of question.TransactItems as Record<string, Record<string, StoredItem>>[])
          for (const { Key, Item, ExpressionAttributeValues } of Object.values(part)) {
            const bytes = bytesOf(Key) + bytesOf(Item) + bytesOf(ExpressionAttributeValues);
            use.writeUnits += 2 * Math.max(1, Math.ceil(bytes / WRITE_UNIT_BYTES));
          }
        return;
      default: {
        // The answer does not contain the item. The values written and the key are all of it except some bytes.
        const bytes = bytesOf(question.Key) + bytesOf(question.ExpressionAttributeValues);
        use.writeRequests++;
        use.writeUnits += Math.max(1, Math.ceil(bytes / WRITE_UNIT_BYTES));
      }
    }
  };
  let fault: TableFault = {};
  let calls = 0;
  const isThrottled = (): boolean => {
    const { throttledShare = 0 } = fault;
    calls++;
    return Math.floor(calls * throttledShare) > Math.floor((calls - 1) * throttledShare);
  };
  const waiting = new Set<NodeJS.Timeout>();
  const front = createServer((request, response) => {
    const asked: Buffer[] = [];
    request.on('data', (chunk: Buffer) => asked.push(chunk));
    request.on('end', () => {
      if (fault.isSilent === true) return;
      if (isThrottled()) {
        response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' }).end(THROTTLED);
        return;
      }
      const timer = setTimeout(() => {
        waiting.delete(timer);
        pass();
      }, fault.delayMs ?? 0);
      waiting.add(timer);
    });
    const pass = (): void => {
      const { method, url = '/', headers } = request;
      const operation = String(headers['x-amz-target']).split('.')[1] ?? '';
      const onward = httpRequest(new URL(url, target), { method, headers, agent: false }, (answer) => {
        const answered: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => answered.push(chunk));
        answer.on('end', () => {
          const body = Buffer.concat(answered);
          count(operation, Buffer.concat(asked).toString(), body.toString() || '{}');
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          response.end(body);
        });
      });
      onward.on('error', () => response.destroy());
      onward.end(Buffer.concat(asked));
    };
  }).listen(0, '127.0.0.1');
  front.keepAliveTimeout = 120_000; // keeps the connection of a test that computes for long
  await once(front, 'listening');
  return {
    url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    take: () => {
      const taken = use;
      use = { readRequests: 0, writeRequests: 0, readUnits: 0, writeUnits: 0 };
      return taken;
    },
    fail: (now = {}) => {
      fault = now;
    },
    close: async () => {
      for (const timer of waiting) clearTimeout(timer);
      front.closeAllConnections();
      front.close();
      await once(front, 'close');
    },
  };
}

/**
 * Returns the size of an item as DynamoDB counts it: names and values. A number has half a byte for each digit and one
 * more.
 */
function bytesOf(item: StoredItem | undefined): number {
  return Object.entries(item ?? {}).reduce((sum, [name, { S, N, B }]) => {
    if (S !== undefined) return sum + name.length + Buffer.byteLength(S);
    if (N !== undefined) return sum + name.length + 1 + Math.ceil(N.replace(/^-|0+$/g, '').length / 2);
    return sum + name.length + Buffer.byteLength(B ?? '', 'base64');
  }, 0);
}
