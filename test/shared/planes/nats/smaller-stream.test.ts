import type { Msg, NatsConnection } from '@nats-io/nats-core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { NatsClient } from '../../../../shared/planes/index.ts';
import { NatsStream } from '../../../../shared/planes/nats/stream.ts';
import type { NatsConnections } from '../../../../shared/planes/nats/types.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../../support/index.ts';
import { streamSizes } from '../../../support/nats-streams.ts';

const NEVER = new AbortController().signal;
const MIB = 2 ** 20;

/** Sends a request, or makes it fail. */
type Fault = (subject: string, send: () => Promise<Msg>) => Promise<Msg>;

/** Returns the connections of a client, with a fault in its requests. */
function faulty(client: NatsClient, fault: Fault): NatsConnections {
  const request = (to: NatsConnection) => (subject: string, payload: Uint8Array, options: never) =>
    fault(subject, () => to.request(subject, payload, options));
  return {
    clock: client.clock,
    messageBytesMax: client.messageBytesMax,
    guard: (callback) => client.guard(callback),
    async connection(signal) {
      const connection = await client.connection(signal);
      return new Proxy(connection, {
        get(target, name) {
          if (name === 'request') return request(target);
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
    },
  };
}

describe.runIf(hasNatsServer())('a stream for which there is no storage', () => {
  let server: NatsServer;
  let client: NatsClient;
  beforeEach(async () => {
    server = await startNatsServer({ storeBytesMax: 100 * MIB });
    client = new NatsClient({ clock: systemClock, servers: [server.url] });
  });
  afterEach(async () => {
    await client.close();
    await server.stop();
  });

  const open = (fault: Fault): NatsStream =>
    new NatsStream(faulty(client, fault), {
      ...{ name: 'log', subject: 'log', replicas: 1, ageMsMax: 60_000 },
      bytesMax: 128 * MIB,
    });

  it('gives storage back with the next call if the first attempt fails', async () => {
    let failures = 0;
    const stream = open(async (subject, send) => {
      if (!subject.startsWith('$JS.API.STREAM.UPDATE.') || failures++ > 0) return await send();
      throw new Error('no leader');
    });
    await expect(stream.facts(NEVER)).rejects.toThrow('no leader');
    expect(await streamSizes(server.url)).toEqual({ log: 64 * MIB });
    expect((await stream.facts(NEVER)).differences).toEqual([expect.stringContaining(`max_bytes is ${32 * MIB},`)]);
    expect(await streamSizes(server.url)).toEqual({ log: 32 * MIB });
  });

  it('gives storage back if the server makes the stream and its answer is lost', async () => {
    let isLost = false;
    const stream = open(async (subject, send) => {
      const answer = await send();
      if (isLost || !subject.startsWith('$JS.API.STREAM.CREATE.') || answer.string().includes('"error"')) return answer;
      isLost = true;
      throw new Error('the answer is lost');
    });
    await expect(stream.facts(NEVER)).rejects.toThrow('the answer is lost');
    await stream.facts(NEVER);
    expect(await streamSizes(server.url)).toEqual({ log: 32 * MIB });
  });

  it('stays as it is after several attempts, and says so', async () => {
    const stream = open(async (subject, send) => {
      if (subject.startsWith('$JS.API.STREAM.UPDATE.')) throw new Error('not allowed');
      return await send();
    });
    for (let attempt = 0; attempt < 3; attempt++) await expect(stream.facts(NEVER)).rejects.toThrow('not allowed');
    expect((await stream.facts(NEVER)).differences).toEqual([expect.stringContaining(`max_bytes is ${64 * MIB},`)]);
  });
});
