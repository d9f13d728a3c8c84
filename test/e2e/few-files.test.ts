import { chmodSync, readdirSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const FILES_MAX = 112;
const CLIENTS = 140;

const fleet = useFleet();
let frontend: StatorProcess;
let worker: StatorProcess;

beforeAll(async () => {
  const node = join(fleet.temporary, 'few-files');
  writeFileSync(node, `#!/bin/sh\nulimit -n ${FILES_MAX}\nexec "${process.execPath}" "$@"\n`);
  chmodSync(node, 0o755);
  [frontend, worker] = await Promise.all([fleet.frontend([], {}, { node }), fleet.worker([], {}, { node })]);
  await fleet.untilWorkers(frontend, 1);
});

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

/** The status of an answer that came whole; 0 for one that was cut. */
function statusOf(url: string, agent: Agent, headers: Readonly<Record<string, string>> = {}): Promise<number> {
  return new Promise((resolve) => {
    const request = get(url, { agent, headers });
    request.on('error', () => resolve(0));
    request.on('upgrade', (response: IncomingMessage, socket: Socket) => {
      socket.destroy();
      resolve(response.statusCode ?? 0);
    });
    request.on('response', (response: IncomingMessage) => {
      response.on('error', () => resolve(0));
      response.on('end', () => resolve(response.statusCode ?? 0)).resume();
    });
  });
}

const ROWS = [
  { what: 'figures of a frontend', process: () => frontend, path: '/metrics' },
  { what: 'its description', process: () => frontend, path: '/openapi.json' },
  { what: 'its WebSockets', process: () => frontend, path: '/v1/responses', headers: UPGRADE },
  { what: 'figures of a worker', process: () => worker, path: '/metrics' },
];

describe('what is first asked for while clients hold all files of the process', () => {
  it.each(ROWS)('is served then, and later: $what', async ({ process, path, headers }) => {
    const { url, pid } = process();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect(await statusOf(`${url}/live`, agent)).toBe(200);
    const others: Socket[] = [];
    const come = (): number =>
      others.push(connect({ port: Number(new URL(url).port), host: '127.0.0.1' }).on('error', () => {}));
    while (others.length < CLIENTS) come();
    const filesOf = (): number => readdirSync(`/proc/${pid}/fd`).length;
    const served = headers === undefined ? 200 : 101;
    try {
      // A file that the process itself closes meanwhile is free again, until one more client comes.
      const areAllTaken = (): boolean => {
        if (filesOf() >= FILES_MAX) return true;
        come();
        return false;
      };
      await waitUntil(areAllTaken, { what: 'all files are taken' });
      expect(await statusOf(`${url}${path}`, agent, headers)).toBe(served);
    } finally {
      for (const socket of others) socket.destroy();
    }
    await waitUntil(() => filesOf() < FILES_MAX - 10, { what: 'files are free again' });
    expect(await statusOf(`${url}${path}`, agent, headers)).toBe(served);
    agent.destroy();
  });
});
