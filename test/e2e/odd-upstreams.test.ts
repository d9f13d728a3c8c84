import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet } from '../support/index.ts';
import { CHAT, COMPLETIONS, MESSAGES, RESPONSES, type StrictReader } from '../support/odd-upstreams/strict-readers.ts';
import { ODD_UPSTREAMS, type OddUpstream } from '../support/odd-upstreams/table.ts';

const fleet = useFleet();
let server: Server;
let frontend: StatorProcess;

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(request.url === '/health' ? '{}' : JSON.stringify({ data: [{ id: 'their-model' }] }));
      return;
    }
    let text = '';
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    request.on('end', () => upstreamIn(text).answer(response));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  [frontend] = await Promise.all([
    fleet.frontend(['--enable-anthropic-api']),
    fleet.worker(['--engine=openai', `--engine-url=${url}`, '--model-name=hosted']),
  ]);
  await fleet.untilWorkers(frontend, 1, 'hosted');
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

function upstreamIn(body: string): OddUpstream {
  const [, at = '0'] = /upstream number (\d+)/.exec(body) ?? [];
  return ODD_UPSTREAMS[Number(at)]!;
}

const READERS: readonly StrictReader[] = [CHAT, COMPLETIONS, RESPONSES, MESSAGES];

describe('an upstream whose answers follow no published API', () => {
  it.each(ODD_UPSTREAMS.map((upstream, at) => [upstream.name, at] as const))('%s', async (_, at) => {
    const { said, fails, isLate } = ODD_UPSTREAMS[at]!;
    const usages = new Set<string>();
    for (const reader of READERS) {
      const isText = said === undefined || (said.calls === undefined && said.reasoning === undefined);
      if (reader === COMPLETIONS && !isText) continue;
      for (const stream of [false, true]) {
        const where = `${reader.path} ${stream ? 'streamed' : 'whole'}`;
        const body = { model: 'hosted', stream, ...reader.body(`upstream number ${at}`, stream) };
        const response = await postJson(`${frontend.url}${reader.path}`, body);
        const text = await response.text();
        if (fails !== undefined) {
          const isEvent = reader === RESPONSES && fails.isTooLong === true; // codex looks for it only in a stream
          const isTold = stream && (isLate === true || isEvent);
          const told = isTold ? reader.stream(text) : { status: 0, message: reader.failure(JSON.parse(text)) };
          expect([where, response.status, told], text).toMatchObject([
            where,
            isTold ? 200 : fails.status,
            {
              message: reader === MESSAGES && fails.isTooLong ? `prompt is too long: ${fails.message}` : fails.message,
            },
          ]);
          continue;
        }
        expect([where, response.status], text).toEqual([where, 200]);
        const read = stream ? reader.stream(text) : reader.whole(JSON.parse(text));
        const expected = { text: '', reasoning: '', calls: [], finish: 'stop', ...said };
        expect([where, read], text).toMatchObject([where, expected]);
        if (reader !== COMPLETIONS && 'usage' in read) usages.add(String(read.usage));
      }
    }
    if (fails === undefined) expect([...usages]).toHaveLength(1); // one number in every dialect
  });
});
