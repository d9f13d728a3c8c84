import protobuf from 'protobufjs';
import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM, seededRandom, systemClock } from '../../../../shared/clock/index.ts';
import { framed, type GrpcCall, HealthService, openGrpcServer, receiveOne } from '../../../../shared/grpc/index.ts';
import type { PlaneClientTls, PlaneServerTls } from '../../../../shared/planes/index.ts';
import type { Router } from '../../../../shared/router/index.ts';
import { decodeChooseResponse, encodeChooseRequest } from '../../../../shared/router-service/grpc/codec.ts';
import type { RouterLineOptions } from '../../../../shared/router-service/grpc/router-line.ts';
import type { RouterGrpcServer } from '../../../../shared/router-service/grpc/router-server.ts';
import {
  createFallbackMetrics,
  queryOf,
  type ResidentAddress,
  ResidentClient,
  ResidentRouter,
  RouterLine,
  serveRouterGrpc,
} from '../../../../shared/router-service/index.ts';
import type { ChooseService } from '../../../../shared/router-service/messages.ts';
import { Inhibition } from '../../../../shared/scheduler/index.ts';
import { StatelessRouter } from '../../../../shared/stateless-router/index.ts';
import { MetricRegistry, type Span, Tracer } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { freePort, readTlsFixture, waitUntil } from '../../../support/index.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { choose } from '../../../support/router/choose.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { NEVER, POOL, prompt, Resident, request, WORKERS } from '../resident-rig.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

async function serve(
  service: ChooseService,
  port = 0,
  secret?: string,
  tls?: PlaneServerTls,
  previousSecret?: string,
): Promise<{ address: ResidentAddress; server: RouterGrpcServer }> {
  const server = await serveRouterGrpc({
    ...SYSTEM,
    service,
    host: '127.0.0.1',
    port,
    secret,
    previousSecret,
    tls,
  });
  opened.push(server);
  const place = `127.0.0.1:${server.port}`;
  return { address: { instanceId: place, grpc: place }, server };
}

/** A process that asks by gRPC alone. */
class Asker {
  readonly client: ResidentClient;
  readonly router: Router;
  readonly #registry = new MetricRegistry();

  readonly inhibition = new Inhibition(systemClock, 5000);

  constructor(chooseTimeoutMs = 5000, options: RouterLineOptions = {}) {
    const clock = systemClock;
    const { inhibition } = this;
    this.client = new ResidentClient({
      plane: createMemoryRequestPlane({ clock }),
      clock,
      random: seededRandom(9),
      chooseTimeoutMs,
      connectTimeoutMs: 5000,
      grpcLine: (place) => new RouterLine(place, clock, options),
    });
    opened.push(this.client);
    this.router = new ResidentRouter({
      client: this.client,
      stateless: new StatelessRouter({ clock, inhibition }),
      inhibition,
      metrics: createFallbackMetrics(this.#registry),
      logger: captureLogger().logger,
    });
  }

  async know(...residents: readonly ResidentAddress[]): Promise<void> {
    this.client.setResidents(residents);
    await this.client.open();
  }

  choose(id: string, tokens: Uint32Array, more: object = {}, signal = NEVER) {
    return choose(this.router, request(id, tokens, more), WORKERS, signal);
  }

  /** Decisions that this process made by itself, for `reason`. */
  async alone(reason: string): Promise<number> {
    const start = `stator_router_fallbacks_total{reason="${reason}"}`;
    const line = (await this.#registry.render()).split('\n').find((text) => text.startsWith(start));
    return Number(line?.slice(line.lastIndexOf(' ') + 1));
  }
}

/** A resident whose clock stands still, and one that asks it. */
async function bed() {
  const resident = await Resident.open(new VirtualClock());
  const asker = new Asker();
  const { address, server } = await serve(resident.service, await freePort()); // one that a successor may take over
  await asker.know(address);
  return { resident, asker, address, server };
}

describe('a router that asks the resident one by gRPC', () => {
  it('goes where the resident says, and tells it when the first token and the end are there', async () => {
    const { resident, asker } = await bed();
    resident.store('b', prompt(160));
    const held = await asker.choose('r', prompt(160));
    expect(held).toMatchObject({ worker: WORKERS[1], dpRank: 0, overlapBlocks: 10, cachedTokens: 160 });
    const reservation = expect.stringMatching(/^[0-9a-f]+$/);
    expect(held.headers).toEqual({ 'x-stator-reservation': reservation });
    const second = await asker.choose('r2', prompt(160, 7));
    const { id } = second.worker;
    expect(resident.loadOf(id).prefill).toBeGreaterThan(0);
    second.prefillDone();
    await waitUntil(() => resident.loadOf(id).prefill === 0, { what: 'the end of the prefill' });
    expect(resident.service.reservations).toBe(2);
    for (const each of [held, second]) each.release();
    await waitUntil(() => resident.service.reservations === 0, { what: 'no reservation' });
  });

  it('shows the token of its fleet, and decides by itself without it', async () => {
    const token = 't'.repeat(32);
    const resident = await Resident.open(new VirtualClock());
    const { address } = await serve(resident.service, 0, token);
    for (const secret of [token, undefined]) {
      const asker = new Asker(5000, { secret });
      await asker.know(address);
      (await asker.choose('r', prompt(160))).release();
      expect(await asker.alone('lost')).toBe(secret === undefined ? 1 : 0);
    }
  });

  it('is known by the token before or after a rotation, whichever end has heard of it', async () => {
    const [old, next] = ['t'.repeat(32), 'u'.repeat(32)];
    const resident = await Resident.open(new VirtualClock());
    for (const [atRouter, atAsker] of [
      [{ secret: old }, { secret: next, previousSecret: old }],
      [{ secret: next, previousSecret: old }, { secret: old }],
      [{ secret: next }, { secret: next, previousSecret: old }],
    ]) {
      const { address } = await serve(resident.service, 0, atRouter?.secret, undefined, atRouter?.previousSecret);
      const asker = new Asker(5000, atAsker);
      await asker.know(address);
      (await asker.choose('r', prompt(160))).release();
      expect(await asker.alone('lost')).toBe(0);
    }
  });

  it('is asked by TLS if there are certificates, and by no caller without TLS', async () => {
    const certificate = (name: string) => ({ cert: readTlsFixture(`${name}.crt`), key: readTlsFixture(`${name}.key`) });
    const [first, second, client] = [certificate('first'), certificate('second'), certificate('client')];
    const resident = await Resident.open(new VirtualClock());
    const decidesAlone = async (address: ResidentAddress, tls: PlaneClientTls | undefined): Promise<number> => {
      const asker = new Asker(5000, { tls: () => tls });
      await asker.know(address);
      (await asker.choose('r', prompt(160))).release();
      return asker.alone('lost');
    };
    const open = await serve(resident.service, 0, undefined, first);
    expect(await decidesAlone(open.address, { ca: first.cert })).toBe(0);
    expect(await decidesAlone(open.address, { ca: first.cert, serverName: 'localhost' })).toBe(0);
    expect(await decidesAlone(open.address, { ca: first.cert, serverName: 'elsewhere' })).toBe(1);
    expect(await decidesAlone(open.address, { ca: second.cert })).toBe(1);
    expect(await decidesAlone(open.address, undefined)).toBe(1);
    open.server.useCertificate(second);
    expect(await decidesAlone(open.address, { ca: second.cert })).toBe(0);
    const mutual = await serve(resident.service, 0, undefined, { ...first, clientCa: client.cert });
    expect(await decidesAlone(mutual.address, { ca: first.cert, ...client })).toBe(0);
    expect(await decidesAlone(mutual.address, { ca: first.cert })).toBe(1);
  });

  it('keeps its hints, and what it knows of workers that failed', async () => {
    const { asker } = await bed();
    const pinned = await asker.choose('r1', prompt(16), { routing: { backend_instance_id: 'b' } });
    expect(pinned.worker.id).toBe('b');
    pinned.release();
    await expect(asker.choose('r0', prompt(16), { routing: { decode_worker_id: 'dead' } })).rejects.toMatchObject({
      code: 'invalid_value',
      param: 'nvext.decode_worker_id',
    });
    const second = await asker.choose('r2', prompt(16), { excluded: new Set(['b']) });
    expect(second.worker.id).toBe('a');
    second.release();
    asker.inhibition.add('a');
    expect((await asker.choose('r3', prompt(16))).worker.id).toBe('b');
  });

  it('waits in the queue of the resident, beyond the deadline of the first message and its removal, and leaves it', async () => {
    const { resident, asker } = await bed();
    const held = await Promise.all([1, 2].map((at) => asker.choose(`held ${at}`, prompt(160, at))));
    const gone = new AbortController();
    const leaving = asker.choose('leaves', prompt(160, 3), {}, gone.signal);
    await waitUntil(() => resident.pending === 1, { what: 'a request in the queue' });
    gone.abort(new Error('client gone'));
    await expect(leaving).rejects.toThrow('client gone');
    await waitUntil(() => resident.pending === 0, { what: 'an empty queue' });
    const waiting = asker.choose('waits', prompt(160, 4));
    await waitUntil(() => resident.pending === 1, { what: 'a request in the queue' });
    held[0]?.release();
    expect((await waiting).worker).toBe(held[0]?.worker);
    const last = asker.choose('stays', prompt(160, 5));
    await waitUntil(() => resident.pending === 1, { what: 'a request in the queue' });
    asker.client.setResidents([]); // its name stands for another address now
    resident.service.reported(held[1]?.worker.id ?? '', [], ['held 2']);
    expect((await last).worker).toBe(held[1]?.worker);
    expect(await asker.alone('silent')).toBe(0);
  });

  it('fails a request that the resident turns down', async () => {
    const findPool = () => ({ pool: POOL, workers: WORKERS, busy: new Set(['a', 'b']) });
    const resident = await Resident.open(new VirtualClock(), undefined, { findPool });
    const asker = new Asker();
    await asker.know((await serve(resident.service)).address);
    await expect(asker.choose('r', prompt(16))).rejects.toMatchObject({ code: 'server_overloaded' });
    const override = { router_temperature: -1 };
    await expect(asker.choose('r', prompt(16), { override })).rejects.toMatchObject({ code: 'invalid_value' });
  });

  it('can show why the resident decided as it did, and would decide', async () => {
    const { resident, asker } = await bed();
    resident.store('b', prompt(160));
    await asker.choose('r', prompt(160));
    expect(await asker.client.explain('r')).toMatchObject({ request_id: 'r', chosen: { worker_id: 'b' } });
    const query = queryOf(request('x', prompt(160)));
    expect(await asker.client.explain(query)).toMatchObject({ request_id: 'x', blocks: 10 });
    expect(await asker.client.explain('unknown')).toBeUndefined();
  });
});

describe('a router whose resident does not answer by gRPC', () => {
  it('asks the next one when the first is a standby, and decides by itself when all are', async () => {
    const { resident: standby, asker, address } = await bed();
    const holder = await Resident.open(new VirtualClock());
    await asker.know(address, (await serve(holder.service)).address);
    standby.isLeader = false;
    await asker.choose('r1', prompt(16));
    expect([standby.service.reservations, holder.service.reservations]).toEqual([0, 1]);
    holder.isLeader = false;
    expect(WORKERS).toContain((await asker.choose('r2', prompt(16))).worker);
    expect(await asker.alone('standby')).toBe(1);
  });

  it('decides by itself when it dies, also for waiting requests, and finds the next one at its address', async () => {
    const { resident, asker, server } = await bed();
    await Promise.all([1, 2].map((at) => asker.choose(`held ${at}`, prompt(160, at))));
    const waiting = asker.choose('r', prompt(160, 3));
    await waitUntil(() => resident.pending === 1, { what: 'a request in the queue' });
    await server.close();
    expect(WORKERS).toContain((await waiting).worker);
    expect(await asker.alone('lost')).toBe(1);
    const next = await Resident.open(new VirtualClock());
    await serve(next.service, server.port);
    const isBack = async (): Promise<boolean> => {
      await asker.choose('again', prompt(16));
      return next.service.reservations === 1;
    };
    await waitUntil(isBack, { what: 'a decision of the next resident', pollMs: 20 });
  });

  it('gives up a silent one, and gives back what it decides too late', async () => {
    const decisions: (() => void)[] = [];
    const released: unknown[] = [];
    const chosen = {
      workerId: 'a',
      dpRank: 0,
      overlapBlocks: 3,
      cachedTokens: 48,
      reservationId: 'r1',
    };
    const service: ChooseService = {
      choose: () => new Promise((resolve) => decisions.push(() => resolve(chosen))),
      release: (change: unknown) => void released.push(change),
      loads: () => [],
      explained: () => undefined,
      explain: () => undefined,
    } as unknown as ChooseService;
    const asker = new Asker(20);
    await asker.know((await serve(service)).address);
    expect(WORKERS).toContain((await asker.choose('r', prompt(16))).worker);
    expect(await asker.alone('silent')).toBe(1);
    await waitUntil(() => decisions.length === 1, { what: 'the question' });
    for (const decide of decisions) decide();
    await waitUntil(() => released.length === 1, { what: 'the place given back' });
    expect(released).toEqual([{ requestId: 'r', reservationId: 'r1', stage: 'end', outputTokens: 0 }]);
  });

  it.each([
    ['a message that cannot be read', [0x12, 0x05, 0x0a]],
    ['a decision that cannot be read', [0x12, 0x02, 0x0a, 0x05]],
    ['a place in the queue that cannot be read', [0x0a, 0x01, 0x08]],
    ['neither a decision nor a place in the queue', []],
  ])('decides by itself when the answer is %s', async (_, bytes) => {
    const health = new HealthService(() => true);
    const choose = (call: GrpcCall): void => receiveOne(call, () => call.write(framed(Uint8Array.from(bytes))));
    const methods = [...health.methods, { path: '/stator.router.v1.Router/Choose', serve: choose }];
    const server = await openGrpcServer({ ...SYSTEM, host: '127.0.0.1', port: 0, methods });
    opened.push({ close: () => server.close(0) });
    const asker = new Asker();
    await asker.know({ instanceId: 'another', grpc: `127.0.0.1:${server.port}` });
    expect(WORKERS).toContain((await asker.choose('r', prompt(16))).worker);
    expect(await asker.alone('lost')).toBe(1);
  });

  it('decides by itself, also later, if no process listens there', async () => {
    const { server } = await serve((await Resident.open(new VirtualClock())).service);
    await server.close();
    const asker = new Asker();
    await asker.know({ instanceId: 'nobody', grpc: `127.0.0.1:${server.port}` });
    expect(WORKERS).toContain((await asker.choose('r', prompt(16))).worker);
    expect(await asker.alone('lost')).toBe(1);
  });
});

describe('the messages of a caller', () => {
  it('are those of proto/router.proto', async () => {
    const root = await protobuf.load('proto/router.proto');
    const [asked, answered] = ['Request', 'Response'].map((kind) => root.lookupType(`stator.router.v1.Choose${kind}`));
    const more = {
      pool: { ...POOL, role: 'decode' } as const,
      routing: { backend_instance_id: 'b' },
      excluded: new Set(['x', 'y']),
      policyClass: 'batch',
    };
    const query = queryOf(request('r', prompt(32), more), new Set(['z']));
    const read = asked?.toObject(asked.decode(encodeChooseRequest(query)), { bytes: Array, arrays: true });
    const bytesOf = (words: Uint32Array) => [...new Uint8Array(words.buffer, words.byteOffset, words.byteLength)];
    expect(read).toEqual({
      requestId: 'r',
      poolKey: POOL.key,
      role: 2,
      blockSizeTokens: 16,
      promptTokens: 32,
      localHashes: bytesOf(query.prompt.hashes.local),
      sequenceHashes: bytesOf(query.prompt.hashes.sequence),
      routingJson: '{"backend_instance_id":"b"}',
      excluded: ['x', 'y'],
      avoided: ['z'],
      policyClass: 'batch',
    });
    const write = (value: object) => decodeChooseResponse(answered?.encode(answered.create(value)).finish() as Buffer);
    expect(write({ queued: { position: 3 } })).toEqual({ kind: 'queued', position: 3 });
    const decision = { workerId: 'a', overlapBlocks: 1, cachedTokens: 16, reservationId: 'f' };
    const chosen = { ...decision, dpRank: undefined };
    expect(write({ decision })).toEqual({ kind: 'decision', chosen });
    expect(write({ decision: { ...decision, dpRank: 0 } })).toEqual({
      kind: 'decision',
      chosen: { ...chosen, dpRank: 0 },
    });
    for (const odd of [{}, { decision: { workerId: 'a' } }]) {
      expect(() => write(odd)).toThrow(expect.objectContaining({ worker: 'BackendProtocol' }));
    }
  });
});

it('names the span of the request only in the metadata of that question', async () => {
  const clock = new VirtualClock();
  const spans: Span[] = [];
  const tracer = new Tracer({ clock, random: seededRandom(4), sinks: [{ ended: (span) => spans.push(span) }] });
  const resident = await Resident.open(clock, undefined, { tracer });
  const { address } = await serve(resident.service);
  const asker = new Asker();
  await asker.know(address);
  await asker.choose('a', prompt(64), { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01` });
  await asker.choose('b', prompt(64));
  expect(spans.map(({ context }) => context.parentSpanId)).toEqual(['cd'.repeat(8), undefined]);
});
