import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { NatsClient } from '../../../../shared/planes/index.ts';
import type { NatsOptions } from '../../../../shared/planes/nats/types.ts';
import {
  hasNatsServer,
  type NatsServer,
  type NatsServerOptions,
  startNatsServer,
  waitUntil,
} from '../../../support/index.ts';

const never = new AbortController().signal;
const utf8 = new TextEncoder();

/** Reports of a client to its observer. */
class Sightings {
  readonly away: string[] = [];
  readonly problems: unknown[] = [];
  connects = 0;

  readonly observer = {
    connected: () => void this.connects++,
    away: (reason: string) => void this.away.push(reason),
    problem: (problem: unknown) => void this.problems.push(problem),
  };
}

describe.runIf(hasNatsServer())('a NATS client', () => {
  const clients: NatsClient[] = [];
  let server: NatsServer;
  let sightings: Sightings;
  beforeEach(() => {
    sightings = new Sightings();
  });
  afterEach(async () => {
    server?.thaw();
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await server?.stop();
  });

  async function start(options: NatsServerOptions = {}): Promise<void> {
    server = await startNatsServer(options);
  }

  function open(options: Partial<NatsOptions> = {}): NatsClient {
    const { observer } = sightings;
    const client = new NatsClient({
      clock: systemClock,
      servers: [server.url],
      retryMs: 20,
      closeTimeoutMs: 200,
      observer,
      ...options,
    });
    clients.push(client);
    return client;
  }

  function hear(client: NatsClient, subject: string): string[] {
    const heard: string[] = [];
    client.subscribe(subject, ({ data }) => heard.push(Buffer.from(data).toString()));
    return heard;
  }

  it('waits for a server that is away at the start, and loses nothing published meanwhile', async () => {
    await start({ isStarted: false });
    const client = open();
    const heard = hear(client, 'a');
    for (const text of ['1', '2', '3']) expect(client.publish('a', utf8.encode(text))).toBe(true);
    expect(client.send('a', utf8.encode('now or never'))).toBe(false);
    await waitUntil(() => sightings.away.length >= 2, { what: 'two attempts' });
    await server.restart();
    await waitUntil(() => heard.length === 3);
    expect(heard).toEqual(['1', '2', '3']);
    expect(sightings.connects).toBe(1);
  });

  it('comes back after the server was killed, subscriptions and unconfirmed messages with it', async () => {
    await start();
    const [client, other] = [open(), open()];
    const heard = hear(other, 'a');
    await other.flush(never);
    client.publish('a', utf8.encode('before'));
    await waitUntil(() => heard.length === 1);
    await client.flush(never);
    await server.kill();
    for (const text of ['1', '2', '3']) client.publish('a', utf8.encode(text));
    await waitUntil(() => !client.isConnected && !other.isConnected);
    client.publish('a', utf8.encode('4'));
    await server.restart();
    await other.flush(never); // the server knows by then that it listens again
    await waitUntil(() => heard.includes('4') || sightings.connects >= 4);
    client.publish('a', utf8.encode('5'));
    await waitUntil(() => heard.at(-1) === '5');
    expect(sightings.away.length).toBeGreaterThan(0);
  });

  it('refuses what exceeds its bound while nothing is confirmed, and takes messages again afterwards', async () => {
    await start();
    const [client, other] = [open({ keptBytesMax: 10_000 }), open()];
    const heard = hear(other, 'a');
    await Promise.all([client.flush(never), other.flush(never)]);
    server.freeze();
    const outcomes = Array.from({ length: 50 }, () => client.publish('a', new Uint8Array(1000)));
    expect(outcomes.filter(Boolean)).toHaveLength(8);
    server.thaw();
    await waitUntil(() => heard.length >= 8);
    await waitUntil(() => client.publish('a', new Uint8Array(1000)));
  });

  it('finds a server dead that hangs, and stays usable', async () => {
    await start();
    const client = open({ pingIntervalMs: 200, connectTimeoutMs: 200 });
    hear(client, 'a');
    await client.connected(never);
    server.freeze();
    await waitUntil(() => !client.isConnected);
    server.thaw();
    await waitUntil(() => client.isConnected);
  });

  it('closes within its deadline when the server hangs', async () => {
    await start();
    const client = open({ closeTimeoutMs: 100 });
    await client.connected(never);
    server.freeze();
    client.publish('a', new Uint8Array(10));
    await client.close();
    expect(client.publish('a', new Uint8Array(10))).toBe(false);
    await expect(client.connected(never)).rejects.toThrow('closed');
  });

  it('refuses a message that the server does not take', async () => {
    await start({ configuration: 'max_payload: 65536' });
    const client = open();
    await client.connected(never);
    expect(client.messageBytesMax).toBe(65_536);
    expect(client.publish('a', new Uint8Array(65_537))).toBe(false);
    expect(client.publish('a', new Uint8Array(65_536))).toBe(true);
    await client.flush(never);
    expect(client.isConnected).toBe(true);
  });

  it('tells waiting callers after the attempts it may make, and tries again when used again', async () => {
    await start({ isStarted: false });
    const client = open({ attemptsMax: 2 });
    await expect(client.connected(never)).rejects.toThrow();
    expect(sightings.away).toHaveLength(2);
    await server.restart();
    await client.connected(never);
  });

  it('stops waiting when the signal aborts', async () => {
    await start({ isStarted: false });
    const client = open();
    const reason = new Error('enough');
    const abort = new AbortController();
    const waiting = client.connected(abort.signal);
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(client.flush(abort.signal)).rejects.toBe(reason);
  });

  it('goes on when a receiver throws', async () => {
    await start();
    const client = open();
    const defect = new Error('defect');
    client.subscribe('a', () => {
      throw defect;
    });
    const heard = hear(client, 'a');
    client.publish('a', utf8.encode('1'));
    await waitUntil(() => heard.length === 1);
    expect(sightings.problems).toContain(defect);
    expect(client.isConnected).toBe(true);
  });

  it.each([
    ['a token', 'authorization { token: "s3cret" }', { identity: { kind: 'token', token: 's3cret' } }],
    [
      'a user',
      'authorization { user: "u", password: "p" }',
      { identity: { kind: 'password', username: 'u', password: 'p' } },
    ],
    [
      'an nkey',
      'authorization { users: [{ nkey: "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" }] }',
      { identity: { kind: 'nkey', seed: 'SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY' } },
    ],
  ] as const)('is who it says: %s', async (_name, configuration, options) => {
    await start({ configuration });
    await open(options).connected(never);
    await expect(open({ attemptsMax: 1 }).connected(never)).rejects.toThrow(/authorization/i);
  });

  it('trusts the authority it is given, shows its own certificate, and refuses strangers', async () => {
    const file = (name: string): string => fileURLToPath(new URL(`../../../fixtures/tls/${name}`, import.meta.url));
    const [cert, key, ca] = ['first.crt', 'first.key', 'client.crt'].map(file);
    await start({ configuration: `tls { cert_file: "${cert}", key_file: "${key}", ca_file: "${ca}", verify: true }` });
    const servers = [server.url.replace('nats://127.0.0.1', 'tls://localhost')];
    const own = { certFile: file('client.crt'), keyFile: file('client.key') };
    await open({ servers, tls: { caFile: file('first.crt'), ...own } }).connected(never);
    await open({ servers, tls: { isInsecure: true, ...own } }).connected(never);
    for (const tls of [own, { caFile: file('second.crt'), ...own }, { caFile: file('first.crt') }]) {
      await expect(open({ servers, tls, attemptsMax: 1 }).connected(never)).rejects.toThrow();
    }
  });

  it('takes user and password from the address', async () => {
    await start({ configuration: 'authorization { user: "u", password: "p%" }' });
    await open({ servers: [server.url.replace('nats://', 'nats://u:p%25@')] }).connected(never);
  });

  it('speaks through a WebSocket', async () => {
    await start();
    const client = open({ servers: [server.webSocketUrl], attemptsMax: 1 });
    const heard = hear(client, 'a');
    client.publish('a', utf8.encode('1'));
    await waitUntil(() => heard.length === 1);
  });

  it('trusts the authority it is given through a WebSocket, shows its own certificate, and refuses strangers', async () => {
    const file = (name: string): string => fileURLToPath(new URL(`../../../fixtures/tls/${name}`, import.meta.url));
    const [cert, key, ca] = ['first.crt', 'first.key', 'client.crt'].map(file);
    const tls = `tls { cert_file: "${cert}", key_file: "${key}", ca_file: "${ca}", verify: true }`;
    await start({ webSocketTls: tls });
    const servers = [server.webSocketUrl.replace('127.0.0.1', 'localhost')];
    const own = { certFile: file('client.crt'), keyFile: file('client.key') };
    const client = open({ servers, tls: { caFile: file('first.crt'), ...own } });
    const heard = hear(client, 'a');
    client.publish('a', utf8.encode('1'));
    await waitUntil(() => heard.length === 1);
    await open({ servers, tls: { isInsecure: true, ...own } }).connected(never);
    for (const tls of [own, { caFile: file('second.crt'), ...own }, { caFile: file('first.crt') }]) {
      await expect(open({ servers, tls, attemptsMax: 1 }).connected(never)).rejects.toThrow();
    }
  });
});
