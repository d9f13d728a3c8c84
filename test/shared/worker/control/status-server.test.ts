import { readFile } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { createWorkerMetrics } from '../../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { readModelInfo } from '../../../../shared/tokens/index.ts';
import { EndpointHealth } from '../../../../shared/worker/control/endpoint-health.ts';
import type { SmallServer } from '../../../../shared/worker/control/small-server.ts';
import { type StatusServerOptions, startStatusServer } from '../../../../shared/worker/control/status-server.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

describe('status server', () => {
  const servers: SmallServer[] = [];
  const clock = new VirtualClock();

  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close();
  });

  async function start(health: EndpointHealth, more: Partial<StatusServerOptions> = {}): Promise<string> {
    const metrics = createWorkerMetrics({
      namespace: 'ns',
      component: 'backend',
      endpoint: 'generate',
      model: 'm',
      clock,
    });
    const server = await startStatusServer({
      health,
      metrics,
      logger: silentLogger,
      ports: { first: 0, last: 0 },
      host: '127.0.0.1',
      ...more,
    });
    servers.push(server);
    return `http://127.0.0.1:${server.port}`;
  }

  it('answers 503 until every endpoint is ready, on both routes', async () => {
    const health = new EndpointHealth(clock, ['generate', 'clear_kv_blocks']);
    const url = await start(health);
    health.set('generate', 'ready');
    for (const path of ['/health', '/live?verbose']) {
      const response = await fetch(url + path);
      expect(response.status).toBe(503);
      expect(response.headers.get('content-type')).toBe('text/plain');
      expect(await response.json()).toMatchObject({
        status: 'notready',
        endpoints: { generate: 'ready', clear_kv_blocks: 'notready' },
      });
    }
    health.set('clear_kv_blocks', 'ready');
    await clock.advance(18_356.504);
    const response = await fetch(`${url}/health`);
    expect(response.status).toBe(200);
    const body = (await response.json()) as { uptime: { secs: number; nanos: number } };
    expect(body).toMatchObject({ status: 'ready', uptime: { secs: 18 } });
    expect(Math.round(body.uptime.nanos / 1000)).toBe(356_504);
  });

  it('says that the process lives while workers drain or sleep, but not while an engine loads or is down', async () => {
    const health = new EndpointHealth(clock, ['generate'], { workers: 2 });
    const url = await start(health);
    const statuses = async (): Promise<readonly number[]> =>
      await Promise.all(['/health', '/live'].map(async (path) => (await fetch(url + path)).status));
    health.setAtRest(true, 'a');
    health.set('generate', 'notready', 'a');
    expect(await statuses()).toEqual([503, 503]); // the second worker loads
    health.set('generate', 'ready', 'b');
    expect(await statuses()).toEqual([503, 200]);
    health.set('generate', 'notready', 'b');
    expect(await statuses()).toEqual([503, 503]);
    health.setAtRest(true, 'b');
    expect(await statuses()).toEqual([503, 200]);
    health.setAtRest(false, 'a');
    expect(await statuses()).toEqual([503, 503]);
  });

  it('starts ready when told so', async () => {
    const url = await start(new EndpointHealth(clock, ['generate'], { starting: 'ready' }));
    expect((await fetch(`${url}/live`)).status).toBe(200);
  });

  it('serves metrics, and health under other paths', async () => {
    const url = await start(new EndpointHealth(clock, []), { healthPath: '/h', livePath: '/l' });
    const metrics = await fetch(`${url}/metrics`);
    expect(metrics.headers.get('content-type')).toContain('text/plain');
    expect(await metrics.text()).toContain('dynamo_component_requests_total');
    expect((await fetch(`${url}/h`)).status).toBe(200);
    expect((await fetch(`${url}/l`)).status).toBe(200);
    expect((await fetch(`${url}/health`)).status).toBe(404);
  });

  it('allows reading alone', async () => {
    const url = await start(new EndpointHealth(clock, []));
    const response = await fetch(`${url}/health`, { method: 'POST' });
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('GET, HEAD');
  });

  it('answers 500 and stays up when metrics cannot be rendered', async () => {
    const render = (): string => {
      throw new Error('broken');
    };
    const metrics = { contentType: 'text/plain', render };
    const url = await start(new EndpointHealth(clock, []), { metrics });
    const response = await fetch(`${url}/metrics`);
    expect([response.status, response.headers.get('content-type')]).toEqual([500, 'text/plain; charset=utf-8']);
    expect(await response.text()).toBe('status server: the answer cannot be made; its log says why\n');
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it('counts only the endpoints that its settings name, and shows the others', async () => {
    const health = new EndpointHealth(clock, ['generate'], { counting: ['generate', 'clear_kv_blocks'] });
    const url = await start(health);
    health.set('generate', 'ready');
    health.set('cancel', 'notready');
    expect((await fetch(`${url}/health`)).status).toBe(503); // one that counts has not come yet
    health.set('clear_kv_blocks', 'ready');
    const response = await fetch(`${url}/health`);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      status: 'ready',
      endpoints: { generate: 'ready', clear_kv_blocks: 'ready', cancel: 'notready' },
    });
  });

  it('lists each worker of a process that has several, and is ready when all of them are', async () => {
    const health = new EndpointHealth(clock, ['generate'], { workers: 2 });
    const url = await start(health);
    const seen = async () => {
      const response = await fetch(`${url}/health`);
      const { endpoints, workers } = (await response.json()) as Readonly<Record<string, unknown>>;
      return { code: response.status, endpoints, workers };
    };
    expect(await seen()).toEqual({ code: 503, endpoints: { generate: 'notready' }, workers: {} });
    health.set('generate', 'ready', '1a');
    const [first, second] = [{ '1a': { generate: 'ready' } }, { '2b': { generate: 'ready' } }];
    expect(await seen()).toEqual({ code: 503, endpoints: { generate: 'notready' }, workers: first });
    health.set('generate', 'ready', '2b');
    expect(await seen()).toEqual({ code: 200, endpoints: { generate: 'ready' }, workers: { ...first, ...second } });
    health.set('generate', 'notready', '1a');
    const withdrawn = { '1a': { generate: 'notready' }, ...second };
    expect(await seen()).toEqual({ code: 503, endpoints: { generate: 'notready' }, workers: withdrawn });
  });

  it('serves the model files that the card names, and no other file', async () => {
    const folder = builtinModelPath();
    const { files } = await readModelInfo(folder);
    const address = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
    let isServing = false;
    const url = await start(new EndpointHealth(clock, []), {
      model: () => (isServing ? { address, card: { slug: 'm', files } } : undefined),
    });
    const base = `${url}/v1/metadata/ns/backend/generate/m/_base`;
    expect((await fetch(`${base}/tokenizer.json`)).status).toBe(404);
    isServing = true;
    const response = await fetch(`${base}/tokenizer.json`);
    expect(response.status).toBe(200);
    expect(response.headers.get('etag')).toBe(`"${files['tokenizer.json']?.checksum}"`);
    expect(await response.text()).toBe(await readFile(`${folder}/tokenizer.json`, 'utf8'));
    const head = await fetch(`${base}/config.json`, { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe(`${files['config.json']?.size}`);
    for (const path of ['/package.json', '/..%2f..%2fpackage.json', '/', '']) {
      expect((await fetch(base + path)).status).toBe(404);
    }
    expect((await fetch(`${url}/v1/metadata/ns/backend/generate/other/_base/tokenizer.json`)).status).toBe(404);
  });

  it('steers nothing', async () => {
    const url = await start(new EndpointHealth(clock, []));
    const asked = [
      ['POST', '/v1/loras'],
      ['GET', '/v1/loras'],
      ['DELETE', '/v1/loras/a'],
      ['POST', '/engine/control/sleep'],
    ];
    for (const [method, path] of asked as [string, string][]) {
      const response = await fetch(url + path, { method });
      expect([response.status, await response.json()]).toMatchObject([404, { message: /STATOR_CONTROL_PORT/ }]);
    }
  });

  it('says which variable to set when its port is taken', async () => {
    const url = await start(new EndpointHealth(clock, []));
    const port = Number(new URL(url).port);
    await expect(start(new EndpointHealth(clock, []), { ports: { first: port, last: port } })).rejects.toThrow(
      /cannot listen on .* set DYN_SYSTEM_PORT/,
    );
  });
});
