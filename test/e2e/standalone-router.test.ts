import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../shared/clock/index.ts';
import type { EndpointRecord } from '../../shared/discovery/index.ts';
import { silentObserver } from '../../shared/planes/index.ts';
import { createTcpRequestPlane } from '../../shared/planes/request/tcp/plane.ts';
import { createDiscovery } from '../support/create-discovery.ts';
import { type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { startOtlpCollector } from '../support/otlp-collector.ts';

const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
const fleet = useFleet({ DYN_DISCOVERY_BACKEND: 'file' });
const plane = createTcpRequestPlane({ clock: systemClock, observer: silentObserver });
const discovery = await createDiscovery({ backend: 'file', ttlMs: 10_000, rootPath: fleet.fileKv });

afterAll(async () => {
  await plane.close();
  await discovery.close();
});

const SPAN_ID = 'cd'.repeat(8);

interface Answered {
  readonly bodies: readonly unknown[];
  readonly tokens: readonly number[];
}

/** Asks an endpoint of the router and reads its whole answer. */
async function ask(endpoint: string, body: unknown, tokenIds?: Uint32Array): Promise<Answered> {
  const prefix = `dynamo/router/${endpoint}`;
  const record = await waitUntil(async () => {
    const [found] = await discovery.list({ bucket: 'v1/instances', prefix });
    return found as EndpointRecord | undefined;
  });
  const bodies: unknown[] = [];
  const tokens: number[] = [];
  await new Promise<void>((resolve, reject) => {
    const request = {
      id: `${endpoint}-${Math.random()}`,
      headers: { traceparent: `00-${'ab'.repeat(16)}-${SPAN_ID}-01` },
      body,
      ...(tokenIds && { tokenIds }),
    };
    plane.call(record.transport, request, {
      accepted: () => {},
      tokens: (_, ids, start, count) => tokens.push(...Array.from(ids).slice(start, start + count)),
      output: (output) => {
        if (output.body !== undefined) bodies.push(output.body);
        tokens.push(...(output.token_ids ?? []));
      },
      end: resolve,
      fail: reject,
    });
  });
  return { bodies, tokens };
}

const prompt = (seed: number): Uint32Array => Uint32Array.from({ length: 64 }, (_, at) => (seed * 100 + at) % 200);
const generate = (seed: number): Promise<Answered> =>
  ask('generate', { model: 'stator-mini', stop_conditions: { max_tokens: 4, ignore_eos: true } }, prompt(seed));

interface Scores {
  readonly block_size: number;
  readonly num_blocks: number;
  readonly workers: readonly { readonly worker_id: string; readonly device_blocks: number }[];
}

async function scoresOf(seed: number): Promise<Scores> {
  const { bodies } = await ask('get_overlap_scores', { token_ids: [...prompt(seed)] });
  return bodies[0] as Scores;
}

describe('stator router', () => {
  it('sends requests where their prompts are cached, and says what it knows', async () => {
    const workers: StatorProcess[] = [];
    for (let at = 0; at < 2; at++) workers.push(await fleet.worker(['--speedup-ratio=50', '--block-size=16']));
    const collector = await startOtlpCollector('http/protobuf');
    onTestFinished(() => collector.stop());
    const router = fleet.spawn(['router', '--endpoint=dynamo.backend.generate', '--router-block-size=16'], {
      DYN_FILE_KV: fleet.fileKv,
      OTEL_EXPORT_ENABLED: '1',
      OTEL_BSP_SCHEDULE_DELAY: '50',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      ...LOOPBACK,
    });
    await router.waitForOutput(/serving service=router endpoint=dynamo.backend.generate/, 15_000);
    const ids = workers.map(({ instanceId }) => BigInt(`0x${instanceId}`).toString()).sort();

    await waitUntil(async () => (await scoresOf(1)).workers.length === 2);
    expect(await scoresOf(1)).toMatchObject({ block_size: 16, num_blocks: 4 });
    expect((await scoresOf(1)).workers.map(({ worker_id: id }) => id).sort()).toEqual(ids);

    expect((await generate(1)).tokens).toHaveLength(4);
    const span = await waitUntil(() => collector.spans.find(({ name }) => name === 'route'));
    expect(span).toMatchObject({ kind: 2, parentSpanId: SPAN_ID, statusCode: 0 });
    expect(workers.map(({ instanceId }) => instanceId)).toContain(span.attributes.worker_id);
    const holder = await waitUntil(async () =>
      (await scoresOf(1)).workers.find(({ device_blocks: held }) => held === 4),
    );
    const { bodies } = await ask('best_worker_id', { token_ids: [...prompt(1)] });
    expect(bodies).toEqual([{ worker_id: holder.worker_id, dp_rank: 0 }]);

    const served = workers.find(({ instanceId }) => BigInt(`0x${instanceId}`).toString() === holder.worker_id)!;
    for (let again = 0; again < 3; again++) await generate(1);
    expect(await served.metric('dynamo_component_requests_total')).toBe(4);

    await served.kill();
    await waitUntil(async () => (await scoresOf(1)).workers.length === 1, { timeoutMs: 30_000 });
    expect((await generate(1)).tokens).toHaveLength(4);
    router.signal('SIGTERM');
    expect(await router.exited).toBe(0);
  }, 90_000);

  it('does not start without its workers named', async () => {
    const child = fleet.spawn(['router']);
    expect(await child.exited).not.toBe(0);
    expect(child.stderr()).toContain('--endpoint');
  });

  it.each([
    ['indexer', 'text/plain'],
    ['slots', 'application/json'],
    ['selection', 'application/json'],
  ])('runs the service %s on a port of its own', async (service, type) => {
    const child = fleet.spawn(['router', `--service=${service}`, '--service-host=127.0.0.1', '--service-port=0']);
    const [, url = ''] = await child.waitForOutput(/serving service=\w+ url=(\S+)/, 15_000);
    const health = await fetch(`${url}/health`);
    expect([health.status, health.headers.get('content-type')]).toEqual([200, expect.stringContaining(type)]);
    child.signal('SIGTERM');
    expect(await child.exited).toBe(0);
  });
});
