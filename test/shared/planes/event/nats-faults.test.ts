import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../../shared/clock/index.ts';
import { createNatsEventPlane, type EventPlane, type EventScope, NatsClient } from '../../../../shared/planes/index.ts';
import { LogHearing } from '../../../contract/planes/event-log.contract.ts';
import { hasNatsServer, type NatsServer, startNatsServer, waitUntil } from '../../../support/index.ts';
import { deleteStreams, streamSizes } from '../../../support/nats-streams.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const SCOPE: EventScope = { kind: 'component', namespace: 'dynamo', component: 'backend' };
const TOPIC = 'kv-events';
const never = new AbortController().signal;
const MIB = 2 ** 20;

describe('the stream of a log that its server cannot make yet', () => {
  /** A plane with a publisher of a logged topic, whose server makes no stream for the first `refusals` times. */
  async function publishing(refusals: number) {
    const clock = new VirtualClock();
    const problems: string[] = [];
    let asked = 0;
    let connected = (): void => {};
    const facts = async () => {
      if (++asked <= refusals) throw new Error('no leader');
      return { createdAt: 'now', firstSequence: 1, lastSequence: 0, differences: [] };
    };
    const client = {
      watch: (watcher: { connected(): void }) => {
        connected = () => watcher.connected();
        return () => {};
      },
      stream: () => ({ facts }),
      close: async () => {},
    } as unknown as NatsClient;
    const onProblem = (problem: unknown): void => void problems.push(String(problem));
    const plane = createNatsEventPlane({ client, clock, random: seededRandom(1), onProblem });
    await plane.publisher(SCOPE, TOPIC);
    await clock.advance(0);
    return { clock, plane, problems, asked: () => asked, connect: () => connected() };
  }

  it('is asked for until it is there, and once more with each connection; the problem is reported once', async () => {
    const { clock, plane, problems, asked, connect } = await publishing(4);
    expect(asked()).toBe(1);
    connect(); // while it is being asked for
    await clock.advance(20_000);
    expect(asked()).toBe(5);
    expect(problems).toEqual(['Error: no leader']);
    connect();
    await clock.advance(60_000);
    expect(asked()).toBe(6);
    await plane.close();
  });

  it('is asked for at most every few seconds, and no more once the plane is closed', async () => {
    const { clock, plane, asked } = await publishing(Number.POSITIVE_INFINITY);
    await clock.advance(600_000);
    expect(asked()).toBeGreaterThan(600 / 7.5);
    expect(asked()).toBeLessThan(600 / 2.5 + 10);
    const before = asked();
    await plane.close();
    await clock.advance(60_000);
    expect(asked()).toBe(before);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe.runIf(hasNatsServer())('the NATS event plane', () => {
  const planes: EventPlane[] = [];
  let server: NatsServer;
  let problems: string[] = [];
  afterEach(async () => {
    server.thaw();
    await Promise.all(planes.splice(0).map((plane) => plane.close()));
    await server.stop();
    problems = [];
  });

  function open(options: { readonly keptBytesMax?: number; readonly logBytesMax?: number } = {}): EventPlane {
    const { keptBytesMax, logBytesMax = 4 * MIB } = options;
    const client = new NatsClient({
      clock: systemClock,
      servers: [server.url],
      retryMs: 20,
      closeTimeoutMs: 200,
      ...(keptBytesMax === undefined ? {} : { keptBytesMax }),
    });
    const plane = createNatsEventPlane({
      client,
      clock: systemClock,
      log: { bytesMax: logBytesMax, heartbeatMs: 200 },
      onProblem: (problem) => void problems.push(String(problem)),
    });
    planes.push(plane);
    return plane;
  }

  async function follow(plane: EventPlane): Promise<LogHearing> {
    const hearing = new LogHearing();
    const log = await plane.log!(SCOPE, TOPIC, never);
    await log.follow(1, hearing, never);
    return hearing;
  }

  it('starts without the server and delivers all to subscribers and log once it is there', async () => {
    server = await startNatsServer({ isStarted: false });
    const [sender, receiver] = [open(), open()];
    const publisher = await sender.publisher(SCOPE, TOPIC);
    const heard: unknown[] = [];
    const subscription = await receiver.subscribe(SCOPE, TOPIC, { event: ({ payload }) => heard.push(payload) });
    subscription.connect(publisher.publisherId, publisher.transport);
    const following = follow(receiver);
    await server.restart();
    const hearing = await following;
    publisher.publish('a');
    await waitUntil(() => heard.length === 1 && hearing.payloads.length === 1);
    expect(publisher.dropped).toBe(0);
  });

  it('keeps the log through a crash of the server; followers go on without a gap', async () => {
    server = await startNatsServer();
    const [sender, receiver] = [open(), open()];
    const hearing = await follow(receiver);
    const publisher = await sender.publisher(SCOPE, TOPIC);
    for (let at = 0; at < 100; at++) publisher.publish(at);
    await waitUntil(() => hearing.entries.length === 100);
    await server.kill();
    for (let at = 100; at < 200; at++) publisher.publish(at);
    await server.restart();
    await waitUntil(() => hearing.payloads.at(-1) === 199);
    expect(hearing.gaps).toEqual([]);
    // What was on its way when the server died may stand twice; nothing is missing, and the order holds.
    const lastSeen = new Map(hearing.payloads.map((payload, at) => [payload, at]));
    expect([...lastSeen.keys()].sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 200 }, (_, at) => at),
    );
    expect(hearing.sequences).toEqual(hearing.sequences.map((_, at) => at + 1));
    expect(publisher.dropped).toBe(0);
  });

  it('counts what it drops while the server is away, and subscribers miss exactly that', async () => {
    server = await startNatsServer();
    const plane = open({ keptBytesMax: 20_000 }); // both ends over one connection: neither is back before the other
    const publisher = await plane.publisher(SCOPE, TOPIC);
    const heard: string[] = [];
    let missed = 0;
    const subscription = await plane.subscribe(SCOPE, TOPIC, {
      event: ({ payload }) => heard.push(String(payload)),
      gap: (_publisherId, expected, received) => {
        missed += received - expected;
      },
    });
    subscription.connect(publisher.publisherId, publisher.transport);
    publisher.publish('before');
    await waitUntil(() => heard.length === 1);
    await server.kill();
    for (let at = 0; at < 100; at++) publisher.publish('x'.repeat(1000));
    expect(publisher.dropped).toBeGreaterThan(70);
    await server.restart();
    const dropped = publisher.dropped;
    await waitUntil(() => {
      publisher.publish('after');
      return missed === publisher.dropped; // each event that is heard shows the gap before it
    });
    expect(heard.filter((payload) => payload.startsWith('x'))).toHaveLength(100 - dropped);
  });

  it('drops and counts an event that is longer than the server takes', async () => {
    server = await startNatsServer();
    const publisher = await open().publisher(SCOPE, TOPIC);
    publisher.publish('x'.repeat(2 * MIB));
    expect(publisher.dropped).toBe(1);
  });

  it('says so when the log does not fit the store, and delivers events all the same', async () => {
    server = await startNatsServer({ storeBytesMax: 2 * MIB });
    const plane = open({ logBytesMax: 4 * MIB });
    await expect(plane.log!(SCOPE, TOPIC, never)).rejects.toThrow(/storage/);
    const publisher = await plane.publisher(SCOPE, TOPIC);
    const heard: unknown[] = [];
    const subscription = await plane.subscribe(SCOPE, TOPIC, { event: ({ payload }) => heard.push(payload) });
    subscription.connect(publisher.publisherId, publisher.transport);
    publisher.publish('a');
    await waitUntil(() => heard.length === 1);
    await waitUntil(() => problems.some((problem) => problem.includes('storage')));
  });

  it('makes smaller logs if the store has no room for what they reserve, and says so', async () => {
    server = await startNatsServer({ storeBytesMax: 100 * MIB });
    const plane = open({ logBytesMax: 4096 * MIB });
    for (const topic of [TOPIC, 'other-events']) {
      const log = await plane.log!(SCOPE, topic, never);
      expect((await log.state(never)).lastSequence).toBe(0);
    }
    const name = 'namespace-dynamo-component-backend';
    expect(await streamSizes(server.url)).toEqual({
      [`${name}-kv-events`]: 32 * MIB,
      [`${name}-other-events`]: 32 * MIB,
    });
    const sized = (topic: string) =>
      problems.filter((problem) => problem.includes(`${name}-${topic} is left as it is`));
    await waitUntil(() => sized('kv-events').length === 1 && sized('other-events').length === 1);
  });

  it('makes a log again that was deleted, as soon as someone follows or the server comes back', async () => {
    server = await startNatsServer();
    const plane = open();
    const publisher = await plane.publisher(SCOPE, TOPIC);
    const hearing = await follow(plane);
    publisher.publish(1);
    await waitUntil(() => hearing.entries.length === 1);
    await deleteStreams(server.url);
    await waitUntil(() => hearing.gaps.length === 1);
    publisher.publish(2);
    await waitUntil(() => hearing.entries.length === 2);
    expect(hearing.sequences).toEqual([1, 1]);
  });

  it('leaves a stream that exists as it is, and says what differs', async () => {
    server = await startNatsServer();
    await open({ logBytesMax: 4 * MIB }).log!(SCOPE, TOPIC, never);
    await open({ logBytesMax: 8 * MIB }).log!(SCOPE, TOPIC, never);
    await waitUntil(() => problems.length > 0);
    expect(problems).toEqual([
      `the event stream namespace-dynamo-component-backend-kv-events is left as it is: max_bytes is ${4 * MIB}, but the setting is ${8 * MIB}`,
    ]);
  });

  it('refuses the stream of a namespace that reads alike but is another', async () => {
    server = await startNatsServer();
    const plane = open();
    await plane.log!({ kind: 'namespace', namespace: 'a_b' }, TOPIC, never);
    await expect(plane.log!({ kind: 'namespace', namespace: 'a-b' }, TOPIC, never)).rejects.toThrow(
      'captures namespace.a_b.kv-events, not namespace.a-b.kv-events',
    );
  });

  it('reads and follows a long log whole, in pages', async () => {
    server = await startNatsServer();
    const plane = open({ logBytesMax: 64 * MIB });
    const log = await plane.log!(SCOPE, TOPIC, never);
    const publisher = await plane.publisher(SCOPE, TOPIC);
    const count = 10_000;
    for (let at = 0; at < count; at++) publisher.publish({ at, filler: 'x'.repeat(at % 100 === 0 ? 4000 : 100) });
    await waitUntil(async () => (await log.state(never)).lastSequence === count);
    let next = 0;
    for await (const { envelope } of log.read(1, never)) expect((envelope.payload as { at: number }).at).toBe(next++);
    expect(next).toBe(count);
    const hearing = await follow(plane);
    await waitUntil(() => hearing.entries.length === count);
    expect(hearing.gaps).toEqual([]);
    expect(publisher.dropped).toBe(0);
  });
});
