import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { postJson, useFleet, waitUntil } from '../support/index.ts';
import { type OtlpCollector, type ReceivedSpan, startOtlpCollector } from '../support/otlp-collector.ts';

const fleet = useFleet();
const CHAT = {
  model: 'stator-mini',
  messages: [{ role: 'user', content: 'Hello there' }],
  max_tokens: 4,
  ignore_eos: true,
};
const SERVER = 'POST /v1/chat/completions';
const CALLER = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8) };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function spansNamed(collector: OtlpCollector, name: string): ReceivedSpan[] {
  return collector.spans.filter((span) => span.name === name);
}

describe('traces of a frontend and a worker', () => {
  it.each([
    ['grpc', ''],
    ['http/protobuf', '/v1/traces'],
  ] as const)('arrive over %s as one, from the edge to the worker, with the log line', async (protocol, path) => {
    const collector = await startOtlpCollector(protocol);
    cleanups.push(() => collector.stop());
    const env = {
      OTEL_EXPORT_ENABLED: '1',
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      DYN_HEALTH_CHECK_ENABLED: 'true',
      DYN_CANARY_WAIT_TIME: '1',
    };
    const namespace = `traced-${protocol.replaceAll('/', '-')}`;
    const worker = await fleet.worker(['--endpoint', `${namespace}.backend.generate`], {
      ...env,
      OTEL_SERVICE_NAME: 'worker',
    });
    const frontend = await fleet.frontend(['--namespace', namespace], { ...env, OTEL_SERVICE_NAME: 'edge' });
    await fleet.untilWorkers(frontend, 1);
    const traceparent = `00-${CALLER.traceId}-${CALLER.spanId}-01`;
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, CHAT, { headers: { traceparent } });
    expect(answer.status).toBe(200);
    await waitUntil(
      () => spansNamed(collector, SERVER).length > 0 && spansNamed(collector, 'handle_payload').length > 0,
      { timeoutMs: 20_000 },
    );
    const [root] = spansNamed(collector, SERVER);
    const parentOf = (name: string): string | undefined => spansNamed(collector, name)[0]?.parentSpanId;
    expect(root).toMatchObject({
      service: 'edge',
      traceId: CALLER.traceId,
      parentSpanId: CALLER.spanId,
      attributes: { method: 'POST', uri: '/v1/chat/completions', output_tokens: 4, 'request.outcome': 'success' },
    });
    expect(root?.attributes).toMatchObject({ decode_worker_id: worker.instanceId });
    const [operation] = spansNamed(collector, 'chat stator-mini');
    expect(operation?.parentSpanId).toBe(root?.spanId);
    for (const part of ['tokenize', 'route', 'dispatch']) expect(parentOf(part)).toBe(operation?.spanId);
    expect(parentOf('handle_payload')).toBe(spansNamed(collector, 'dispatch')[0]?.spanId);
    expect(spansNamed(collector, 'handle_payload')[0]).toMatchObject({ service: 'worker', traceId: CALLER.traceId });
    expect(collector.spans).toHaveLength(6); // neither canaries nor health checks are among them
    if (path !== '') expect(collector.paths).toContain(path);
    const line = await waitUntil(() => collector.lines.find(({ body }) => body === 'request completed'));
    expect(line).toMatchObject({ service: 'edge', traceId: CALLER.traceId, spanId: root?.spanId });
  });

  it('are logged where that is asked for, without a collector', async () => {
    const env = { DYN_LOGGING_SPAN_EVENTS: '1' };
    const worker = await fleet.worker(['--endpoint', 'logged.backend.generate'], env);
    const frontend = await fleet.frontend(['--namespace', 'logged'], env);
    await fleet.untilWorkers(frontend, 1);
    expect((await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).status).toBe(200);
    await worker.waitForOutput(/SPAN_CLOSED span_name=handle_payload/);
    await frontend.waitForOutput(/SPAN_FIRST_ENTRY span_name="?POST \/v1\/chat\/completions/);
    await frontend.waitForOutput(/SPAN_CLOSED span_name=dispatch/);
  });
});

describe('what a start that fails has logged', () => {
  it.each([
    [
      'a router',
      ['router', '--service=indexer', '--service-peers=http://127.0.0.1:1', '--service-port=PORT'],
      'a peer returned no dump',
    ],
  ] as const)('arrives at the collector: %s', async (_, args, message) => {
    const collector = await startOtlpCollector('http/protobuf');
    cleanups.push(() => collector.stop());
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => taken.close());
    const port = String((taken.address() as AddressInfo).port);
    const child = fleet.spawn(
      args.map((arg) => arg.replace('PORT', port)),
      {
        OTEL_EXPORT_ENABLED: '1',
        OTEL_BLRP_SCHEDULE_DELAY: '60000',
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      },
    );
    expect(await child.exited).not.toBe(0);
    expect(collector.lines.map(({ body }) => body)).toContain(message);
  });
});

describe('what a planner logs', () => {
  it('arrives at the collector, its last words too', async () => {
    const collector = await startOtlpCollector('http/protobuf');
    cleanups.push(() => collector.stop());
    const planner = fleet.spawn(
      ['planner', '--planner-connector=virtual', `--planner-dir=${fleet.temporary}/planner`],
      {
        DYN_DISCOVERY_BACKEND: 'file',
        DYN_FILE_KV: fleet.fileKv,
        OTEL_SERVICE_NAME: 'planner',
        OTEL_EXPORT_ENABLED: '1',
        OTEL_BLRP_SCHEDULE_DELAY: '60000', // nothing leaves by time
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      },
    );
    await planner.waitForOutput(/planning/);
    planner.signal('SIGTERM');
    expect(await planner.exited).toBe(0);
    const bodies = collector.lines.filter(({ service }) => service === 'planner').map(({ body }) => body);
    expect(bodies).toEqual(expect.arrayContaining(['planning', 'stopping']));
  });
});
