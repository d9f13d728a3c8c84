import { chmodSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { freePort, postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const FILES_MAX = 128;
const CLIENTS = 200;
/** A head has 20 s, and what is late is looked for each second; the machine runs other tests. */
const BACK_MS_MAX = 50_000;
const CHAT = { model: 'stator-mini', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 };

const fleet = useFleet();
let grpcPort: number;
let byHttp: StatorProcess;
let byGrpc: StatorProcess;
let worker: StatorProcess;
const silent: Socket[] = [];

beforeAll(async () => {
  const node = join(fleet.temporary, 'few-files');
  writeFileSync(node, `#!/bin/sh\nulimit -n ${FILES_MAX}\nexec "${process.execPath}" "$@"\n`);
  chmodSync(node, 0o755);
  grpcPort = await freePort();
  [byHttp, byGrpc, worker] = await Promise.all([
    fleet.frontend([], {}, { node }),
    fleet.frontend([`--grpc-port=${grpcPort}`], {}, { node }),
    fleet.worker([], {}, { node }),
  ]);
  await Promise.all([byHttp, byGrpc].map((frontend) => fleet.untilWorkers(frontend, 1)));
});
afterAll(() => {
  for (const socket of silent) socket.destroy();
});

const portOf = (url: string): number => Number(new URL(url).port);
const chats = async ({ url }: StatorProcess): Promise<number> =>
  (await postJson(`${url}/v1/chat/completions`, CHAT)).status;
const reads = async (url: string): Promise<number> => (await fetch(url)).status;

/** Where clients are silent, what others ask for meanwhile, and the status that they are told. */
const ROWS: readonly (readonly [string, () => number, () => Promise<number>, number])[] = [
  ['HTTP of a frontend', () => portOf(byHttp.url), () => chats(byHttp), 200],
  ['gRPC of a frontend', () => grpcPort, () => chats(byGrpc), 200],
  ['the status of a worker', () => portOf(worker.url), () => reads(`${worker.url}/live`), 200],
];

describe('clients that say nothing and stay, more than a process has files for', () => {
  it.concurrent.each(ROWS)(
    'keep others out for no longer than a head may take: %s',
    { timeout: 90_000 },
    async (_, port, ask, status) => {
      for (let at = 0; at < CLIENTS; at++) {
        const socket = connect({ port: port(), host: '127.0.0.1', allowHalfOpen: true });
        silent.push(socket.on('error', () => {}).resume()); // it is one too many
      }
      await waitUntil(async () => (await ask()) === status, { timeoutMs: BACK_MS_MAX, pollMs: 500, what: 'an answer' });
    },
  );
});
