import { type ChannelCredentials, Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import type { RouterGrpcServer } from '../../../../shared/router-service/grpc/router-server.ts';
import { serveRouterGrpc } from '../../../../shared/router-service/index.ts';
import { hashBlocks } from '../../../../shared/tokens/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { BLOCK, POOL, prompt, Resident, settle } from '../resident-rig.ts';

let root: protobuf.Root;
const opened: { close(): unknown }[] = [];

beforeAll(async () => {
  root = await protobuf.load('proto/router.proto');
});

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

function bytesOf(words: Uint32Array): Buffer {
  const bytes = Buffer.alloc(words.length * 4);
  for (const [at, word] of words.entries()) bytes.writeUInt32LE(word, at * 4);
  return bytes;
}

/** A resident router behind gRPC, and a client that knows it by proto/router.proto alone. */
async function open(secret?: string) {
  const resident = await Resident.open(new VirtualClock());
  const server: RouterGrpcServer = await serveRouterGrpc({
    ...SYSTEM,
    service: resident.service,
    host: '127.0.0.1',
    port: 0,
    secret,
  });
  const plain: ChannelCredentials = credentials.createInsecure();
  const client = new Client(`127.0.0.1:${server.port}`, plain);
  opened.push(client, server);
  const type = (name: string): protobuf.Type => root.lookupType(`stator.router.v1.${name}`);
  const encode = (name: string) => (value: object) => {
    const wrong = type(name).verify(value);
    if (wrong !== null) throw new Error(wrong);
    return Buffer.from(type(name).encode(type(name).create(value)).finish());
  };
  const decode = (name: string) => (bytes: Buffer) => type(name).toObject(type(name).decode(bytes), { defaults: true });
  const unary = (name: string, value: object): Promise<Record<string, unknown>> =>
    new Promise((resolve, reject) => {
      const path = `/stator.router.v1.Router/${name}`;
      client.makeUnaryRequest(path, encode(`${name}Request`), decode(`${name}Response`), value, (error, answer) =>
        error === null ? resolve(answer ?? {}) : reject(error),
      );
    });
  const choose = (value: object) => {
    const path = '/stator.router.v1.Router/Choose';
    const call = client.makeServerStreamRequest(path, encode('ChooseRequest'), decode('ChooseResponse'), value);
    const messages: Record<string, unknown>[] = [];
    const over = new Promise<ServiceError | undefined>((resolve) => {
      call.on('data', (message: Record<string, unknown>) => messages.push(message));
      call.on('error', resolve);
      call.on('end', () => resolve(undefined));
    });
    return { call, messages, over };
  };
  return { resident, client, unary, choose };
}

function chooseRequest(requestId: string, tokens: Uint32Array, more: object = {}): object {
  const { local, sequence } = hashBlocks(tokens, { blockSizeTokens: BLOCK });
  return {
    requestId,
    poolKey: POOL.key,
    blockSizeTokens: BLOCK,
    promptTokens: tokens.length,
    localHashes: bytesOf(local),
    sequenceHashes: bytesOf(sequence),
    ...more,
  };
}

describe('the router by gRPC', () => {
  it('decides by hashes of 64 bits, and frees the place on release', async () => {
    const { resident, choose, unary } = await open();
    resident.store('b', prompt(160));
    const asked = choose(chooseRequest('r', prompt(160)));
    expect(await asked.over).toBeUndefined();
    const [{ decision }] = asked.messages as [{ decision: Record<string, unknown> }];
    expect(decision).toMatchObject({ workerId: 'b', dpRank: 0, overlapBlocks: 10, cachedTokens: 160 });
    expect(resident.service.reservations).toBe(1);
    const { reservationId } = decision;
    await unary('Release', { requestId: 'r', reservationId, stage: 1 });
    expect(resident.loadOf('b').requests).toBe(1);
    await unary('Release', { requestId: 'r', reservationId });
    expect(resident.service.reservations).toBe(0);
  });

  it('answers only health checks without its token', async () => {
    const { client, choose, unary, resident } = await open('t'.repeat(32));
    const asked = choose(chooseRequest('r', prompt(160)));
    expect((await asked.over)?.code).toBe(status.UNAUTHENTICATED);
    for (const name of ['Release', 'Loads', 'Explain']) {
      await expect(unary(name, {})).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    }
    expect(resident.service.reservations).toBe(0);
    const same = (bytes: Buffer): Buffer => bytes;
    const health = await new Promise((resolve) => {
      client.makeUnaryRequest('/grpc.health.v1.Health/Check', same, same, Buffer.alloc(0), resolve);
    });
    expect(health).toBeNull();
  });

  it('reads hints, settings and workers to leave out', async () => {
    const { resident, choose } = await open();
    const pinned = choose(chooseRequest('r1', prompt(16), { routingJson: '{"backend_instance_id":"b"}' }));
    await pinned.over;
    expect(pinned.messages).toMatchObject([{ decision: { workerId: 'b' } }]);
    resident.service.reported('b', [], ['r1']);
    const left = choose(chooseRequest('r2', prompt(16), { excluded: ['a'], avoided: ['x'], policyClass: 'default' }));
    await left.over;
    expect(left.messages).toMatchObject([{ decision: { workerId: 'b' } }]);
    const wrong = choose(chooseRequest('r3', prompt(16), { overrideJson: '{"router_temperature":-1}' }));
    expect((await wrong.over)?.code).toBe(status.INVALID_ARGUMENT);
  });

  it('says that a request waits, and lets it leave the queue by cancelling', async () => {
    const { resident, choose } = await open();
    for (const at of [1, 2]) await choose(chooseRequest(`held ${at}`, prompt(160, at))).over;
    const waiting = choose(chooseRequest('r', prompt(160, 3)));
    await new Promise((resolve) => waiting.call.once('data', resolve));
    expect(waiting.messages).toMatchObject([{ queued: { position: 0 } }]);
    waiting.call.cancel();
    expect((await waiting.over)?.code).toBe(status.CANCELLED);
    for (let turn = 0; turn < 100 && resident.pending > 0; turn++) await settle();
    expect(resident.pending).toBe(0);
  });

  it('tells loads, and explains', async () => {
    const { choose, unary } = await open();
    await choose(chooseRequest('r', prompt(160))).over;
    const { pools } = (await unary('Loads', {})) as { pools: { model: string; loads: { activeRequests: number }[] }[] };
    expect(pools).toMatchObject([{ model: 'm', poolKey: 'sum', pendingRequests: 0 }]);
    expect(pools[0]?.loads.map(({ activeRequests }) => activeRequests).sort()).toEqual([0, 1]);
    const made = JSON.parse(String((await unary('Explain', { requestId: 'r' })).explanationJson));
    expect(made).toMatchObject({ request_id: 'r', blocks: 10 });
    const query = chooseRequest('x', prompt(320));
    const planned = JSON.parse(String((await unary('Explain', { query })).explanationJson));
    expect(planned).toMatchObject({ request_id: 'x', blocks: 20 });
    await expect(unary('Explain', { requestId: 'unknown' })).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it('is unavailable on a standby, for callers and for health checks', async () => {
    const { resident, client, choose } = await open();
    const check = (service: string) =>
      new Promise<number>((resolve, reject) => {
        const request = Buffer.concat([Buffer.from([10, service.length]), Buffer.from(service)]);
        const same = (bytes: Buffer): Buffer => bytes;
        client.makeUnaryRequest('/grpc.health.v1.Health/Check', same, same, request, (error, answer) =>
          error === null ? resolve(answer?.[1] ?? 0) : reject(error),
        );
      });
    expect([await check(''), await check('stator.router.v1.Router')]).toEqual([1, 1]);
    resident.isLeader = false;
    expect([await check(''), await check('stator.router.v1.Router')]).toEqual([1, 2]);
    await expect(check('other')).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect((await choose(chooseRequest('r', prompt(16))).over)?.code).toBe(status.UNAVAILABLE);
  });

  it.each([
    ['no request id', chooseRequest('', prompt(16))],
    ['a broken hint', chooseRequest('r', prompt(16), { routingJson: '[' })],
    ['hints that are no object', chooseRequest('r', prompt(16), { routingJson: '[]' })],
    ['half a hash', chooseRequest('r', prompt(16), { localHashes: Buffer.alloc(4), sequenceHashes: Buffer.alloc(4) })],
    ['hashes of one kind only', chooseRequest('r', prompt(16), { sequenceHashes: Buffer.alloc(0) })],
    ['a role of a later version', chooseRequest('r', prompt(16), { role: 9 })],
  ])('refuses %s', async (_, request) => {
    const { choose } = await open();
    expect((await choose(request).over)?.code).toBe(status.INVALID_ARGUMENT);
  });

  it('refuses bytes that are no message, and passes over fields of later versions', async () => {
    const { client } = await open();
    const same = (bytes: Buffer): Buffer => bytes;
    const release = (bytes: Buffer) =>
      new Promise<number>((resolve) => {
        client.makeUnaryRequest('/stator.router.v1.Router/Release', same, same, bytes, (error) =>
          resolve(error?.code ?? status.OK),
        );
      });
    expect(await release(Buffer.from([10, 200, 1]))).toBe(status.INVALID_ARGUMENT);
    expect(await release(Buffer.from([10, 1, 120, 0xa0, 6, 1]))).toBe(status.OK);
  });
});
