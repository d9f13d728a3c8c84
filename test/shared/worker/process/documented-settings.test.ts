import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { waitUntil } from '../../../support/index.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A worker in front of a server that keeps what it is sent, and how often it is asked anything else. */
async function idleWorker(flags: readonly string[], env: Readonly<Record<string, string>>) {
  const bodies: unknown[] = [];
  const asked = { times: 0 };
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const isList = request.url?.endsWith('/models') === true;
    if (request.method === 'GET') asked.times++;
    else bodies.push(JSON.parse(Buffer.concat(parts).toString()));
    const list = { object: 'list', data: [{ id: 'm', object: 'model' }] };
    const choices = [{ index: 0, text: 'a', message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }];
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(isList ? list : { id: 'x', choices }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const enabled = {
    DYN_DISCOVERY_BACKEND: 'mem',
    DYN_HEALTH_CHECK_ENABLED: 'true',
    DYN_CANARY_WAIT_TIME: '0.05',
    ...env,
  };
  const config = resolveConfig('worker', ['--engine=openai', `--engine-url=${url}`, ...flags], enabled);
  const worker = await startWorkerProcess(config, SYSTEM, silentLogger, AbortSignal.timeout(20_000));
  closing.push(() => worker.drain());
  return { bodies, asked };
}

/** What an idle engine is sent first. */
async function canaryOf(flags: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const { bodies } = await idleWorker(flags, {
    DYN_HEALTH_CHECK_ENABLED: 'true',
    DYN_CANARY_WAIT_TIME: '0.05',
    ...env,
  });
  await waitUntil(() => bodies.length > 0, { what: 'a canary' });
  return bodies[0];
}

describe('the monitor of a worker', () => {
  it('asks its engine for its health every DYN_ENGINE_HEALTH_CHECK_INTERVAL', async () => {
    const often = await idleWorker([], { DYN_ENGINE_HEALTH_CHECK_INTERVAL: '0.02' });
    const seldom = await idleWorker([], { DYN_ENGINE_HEALTH_CHECK_INTERVAL: '3600' });
    const atStart = seldom.asked.times;
    await waitUntil(() => often.asked.times >= atStart + 5, { what: 'five checks' });
    expect(seldom.asked.times).toBe(atStart);
  });
});

describe('the canary of a worker', () => {
  it('is what --health-check-payload and DYN_HEALTH_CHECK_PAYLOAD say, and one token of the model without them', async () => {
    const payload = '{"prompt":"ping","max_tokens":2}';
    const own = { prompt: 'ping', max_tokens: 2 };
    expect(await canaryOf([`--health-check-payload=${payload}`])).toMatchObject(own);
    expect(await canaryOf([], { DYN_HEALTH_CHECK_PAYLOAD: payload })).toMatchObject(own);
    expect(await canaryOf([])).toMatchObject({ model: 'm', max_tokens: 1, temperature: 0 });
  });
});
