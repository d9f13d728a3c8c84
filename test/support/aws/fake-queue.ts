import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** A queue that takes what is sent to it, as SQS does, and keeps it. */
export interface FakeQueue {
  readonly url: string;
  /** Bodies of the messages, in order. */
  readonly events: readonly Readonly<Record<string, unknown>>[];
  stop(): Promise<void>;
}

/** Starts one on loopback. It takes batches alone: nothing sends single messages. */
export async function startFakeQueue(): Promise<FakeQueue> {
  const events: Record<string, unknown>[] = [];
  const server = createServer(async (request, response) => {
    const { Entries = [] } = (await json(request)) as { Entries?: { Id: string; MessageBody: string }[] };
    events.push(...Entries.map(({ MessageBody }) => JSON.parse(MessageBody) as Record<string, unknown>));
    const Successful = Entries.map(({ Id, MessageBody }) => ({
      Id,
      MessageId: Id,
      MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
    }));
    response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify({ Successful }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
