/**
 * Measures the cost of a decision at a resident router, by gRPC and on the TCP request plane, at a steady pace. It is
 * the CPU time of the router for one `Choose` with its release, and how long callers wait. The prompt has 160 blocks,
 * and there are 64 workers. The router has its own process.
 *
 *     npm run bench:part -- bench/router-service.ts [--json] [--rate 2000] [--seconds 4]
 */
import { fork } from 'node:child_process';
import { parseArgs } from 'node:util';
import { Client, credentials } from '@grpc/grpc-js';
import protobuf from 'protobufjs/minimal.js';
import { BlockIndex } from '../shared/block-index/index.ts';
import { seededRandom, systemClock, systemRandom } from '../shared/clock/index.ts';
import type { Transport } from '../shared/planes/index.ts';
import { createTcpRequestPlane } from '../shared/planes/request/tcp/plane.ts';
import type { WorkerPool } from '../shared/router/index.ts';
import {
  ResidentClient,
  ResidentService,
  serveRouterGrpc,
  serveRouterOnPlane,
} from '../shared/router-service/index.ts';
import type { ChooseQuery } from '../shared/router-service/messages.ts';
import { KvRouter } from '../shared/scheduler/index.ts';
import { kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { hashBlocks } from '../shared/tokens/index.ts';

const BLOCK = 16;
const BLOCKS = 160;
const WORKERS = 64;
const SESSIONS = 512;
const POOL: WorkerPool = { key: 'bench', role: 'aggregated', blockSizeTokens: BLOCK };

type Ports = { readonly grpc: number; readonly choose: Transport; readonly release: Transport };
/** One decision and its end; resolves when the decision is there. */
type Ask = (id: string, session: number) => Promise<void>;

const prompts = Array.from({ length: SESSIONS }, (_, session) => {
  const tokens = Uint32Array.from({ length: BLOCKS * BLOCK }, (_, at) =>
    at < 512 ? at : 1_000_000 * (session + 1) + at,
  );
  return { tokens: tokens.length, hashes: hashBlocks(tokens, { blockSizeTokens: BLOCK }) };
});

async function serve(): Promise<void> {
  const workers = Array.from({ length: WORKERS }, (_, at) => {
    return {
      id: (at + 1).toString(16),
      dataParallelStartRank: 0,
      dataParallelSize: 1,
      deviceType: undefined,
      taints: [],
    };
  });
  const kv = new KvRouter({
    config: kvRouterConfig({}),
    clock: systemClock,
    random: seededRandom(1),
    indexFor: (_, ranks) => {
      const index = new BlockIndex({ ranks });
      for (const [at, { hashes }] of prompts.entries()) {
        const rank = ranks.intern(workers[at % WORKERS]?.id ?? '', 0);
        index.stored(rank, 'device', undefined, hashes.sequence, hashes.local);
      }
      return index;
    },
  });
  kv.setWorkers(POOL, workers);
  const service = new ResidentService({
    router: kv,
    kv,
    clock: systemClock,
    random: systemRandom,
    findPool: () => ({ pool: POOL, workers }),
    isLeader: () => true,
  });
  const grpc = await serveRouterGrpc({
    service,
    host: '127.0.0.1',
    port: 0,
    clock: systemClock,
    random: systemRandom,
  });
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
  const server = await plane.serve({ instanceId: '1' });
  const endpoints = serveRouterOnPlane(server, { instanceId: '1', namespace: 'bench' }, service);
  const transportOf = (name: string) => endpoints.find(({ endpoint }) => endpoint === name)?.transport as Transport;
  process.on('message', () => process.send?.(process.cpuUsage()));
  process.on('disconnect', () => process.exit());
  process.send?.({ grpc: grpc.port, choose: transportOf('choose'), release: transportOf('release') } satisfies Ports);
}

function grpcAsker({ grpc }: Ports): Ask {
  const client = new Client(`127.0.0.1:${grpc}`, credentials.createInsecure());
  const bytes = ({ buffer, byteOffset, byteLength }: Uint32Array) => new Uint8Array(buffer, byteOffset, byteLength);
  const same = (message: Buffer): Buffer => message;
  return (id, session) =>
    new Promise((resolve, reject) => {
      const { tokens, hashes } = prompts[session % SESSIONS] as (typeof prompts)[number];
      const writer = protobuf.Writer.create()
        .uint32(10)
        .string(id)
        .uint32(18)
        .string(POOL.key)
        .uint32(32)
        .uint32(BLOCK);
      writer.uint32(40).uint32(tokens).uint32(50).bytes(bytes(hashes.local)).uint32(58).bytes(bytes(hashes.sequence));
      const request = Buffer.from(writer.finish());
      const call = client.makeServerStreamRequest('/stator.router.v1.Router/Choose', same, same, request);
      call.on('error', reject).on('data', (message: Buffer) => {
        resolve();
        const reader = protobuf.Reader.create(message);
        reader.uint32(); // that a decision follows
        reader.uint32(); // its length
        let reservationId = '';
        while (reader.pos < reader.len) {
          const key = reader.uint32();
          if (key >>> 3 === 5) reservationId = reader.string();
          else reader.skipType(key & 7);
        }
        const release = protobuf.Writer.create().uint32(10).string(id).uint32(18).string(reservationId).finish();
        client.makeUnaryRequest('/stator.router.v1.Router/Release', same, same, Buffer.from(release), () => {});
      });
    });
}

function planeAsker({ choose, release }: Ports): Ask {
  const plane = createTcpRequestPlane({ clock: systemClock });
  const client = new ResidentClient({ plane, clock: systemClock, random: systemRandom, chooseTimeoutMs: 2000 });
  client.setResidents([{ instanceId: '1', choose, release, explain: choose }]);
  const opened = client.open();
  return async (requestId, session) => {
    await opened;
    const prompt = prompts[session % SESSIONS] as ChooseQuery['prompt'];
    const named = { requestId, poolKey: POOL.key, role: POOL.role, blockSizeTokens: BLOCK, prompt, routing: {} };
    const nobody = new Set<string>();
    const query = { ...named, override: undefined, excluded: nobody, avoided: nobody, policyClass: undefined };
    const answer = await client.choose(query, new AbortController().signal);
    if (answer.kind !== 'decided') throw new Error(`not decided: ${JSON.stringify(answer)}`);
    answer.line.change({ requestId, reservationId: answer.chosen.reservationId, stage: 'end' });
  };
}

async function measure(name: string, ask: Ask, cpu: () => Promise<number>, rate: number, seconds: number) {
  const waits: number[] = [];
  const run = async (count: number, prefix: string): Promise<void> => {
    const startMs = performance.now();
    const pending: Promise<void>[] = [];
    for (let at = 0; at < count; ) {
      const due = Math.min(count, Math.ceil(((performance.now() - startMs) / 1000) * rate));
      for (; at < due; at++) {
        const askedMs = performance.now();
        pending.push(ask(`${prefix}${at}`, at * 7).then(() => void waits.push(performance.now() - askedMs)));
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(pending);
  };
  await run(rate, `${name} warm `);
  waits.length = 0;
  const beforeUs = await cpu();
  await run(rate * seconds, `${name} `);
  const cpuUs = ((await cpu()) - beforeUs) / (rate * seconds);
  waits.sort((a, b) => a - b);
  const at = (share: number): number => waits[Math.floor(share * (waits.length - 1))] as number;
  return { name, cpuUs, p50Ms: at(0.5), p99Ms: at(0.99) };
}

async function main(): Promise<void> {
  const options = { json: { type: 'boolean' }, rate: { type: 'string' }, seconds: { type: 'string' } } as const;
  const { json, rate = '2000', seconds = '4' } = parseArgs({ options }).values;
  // The same bundle serves.
  const server = fork(process.argv[1] as string, ['--serve']);
  const next = <T>(): Promise<T> =>
    new Promise((resolve) => server.once('message', (message) => resolve(message as T)));
  const ports = await next<Ports>();
  const cpu = async (): Promise<number> => {
    server.send('cpu');
    const { user, system } = await next<NodeJS.CpuUsage>();
    return user + system;
  };
  const rows = [];
  for (const [name, ask] of [
    ['tcp', planeAsker(ports)],
    ['grpc', grpcAsker(ports)],
  ] as const) {
    rows.push(await measure(name, ask, cpu, Number(rate), Number(seconds)));
  }
  server.disconnect();
  if (json === true) console.log(JSON.stringify(rows));
  else {
    console.log('way   router CPU us  p50 ms  p99 ms');
    for (const { name, cpuUs, p50Ms, p99Ms } of rows) {
      console.log(
        `${name.padEnd(4)}  ${cpuUs.toFixed(0).padStart(13)}  ${p50Ms.toFixed(2).padStart(6)}  ${p99Ms.toFixed(2).padStart(6)}`,
      );
    }
  }
  server.once('exit', () => process.exit());
}

await (process.argv.includes('--serve') ? serve() : main());
