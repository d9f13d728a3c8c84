import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { MetricRegistry, openTelemetry, Tracer } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { countAllRepeats } from '../../../../shared/telemetry/log/repeats.ts';
import { countDroppedTelemetry } from '../../../../shared/telemetry/metrics/registry.ts';
import { type OtlpExport, openOtlp, otlpTargets } from '../../../../shared/telemetry/otlp/open-otlp.ts';
import { freePort, waitUntil } from '../../../support/index.ts';
import { type OtlpCollector, startOtlpCollector } from '../../../support/otlp-collector.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function startCollector(protocol: 'grpc' | 'http/protobuf', port?: number): Promise<OtlpCollector> {
  const collector = await startOtlpCollector(protocol, port);
  cleanups.push(() => collector.stop());
  return collector;
}

async function openExport(protocol: 'grpc' | 'http/protobuf', endpoint: string) {
  const targets = otlpTargets({
    otelExporterOtlpEndpoint: endpoint,
    otelExporterOtlpTracesProtocol: protocol,
    otelExporterOtlpLogsProtocol: protocol,
  });
  const { logger, lines } = captureLogger();
  const registry = new MetricRegistry();
  const onDropped = countDroppedTelemetry(registry);
  const clock = new VirtualClock(); // so that a flush lasts until all is sent, also where that takes more than a second
  const otlp = await openOtlp({
    ...targets,
    attributes: { 'service.name': 'edge', 'deployment.environment.name': 'lab' },
    clock,
    logger,
    onDropped,
  });
  cleanups.push(() => otlp.close());
  const dropped = async (kind: 'spans' | 'lines'): Promise<number> => {
    const line = new RegExp(`^stator_telemetry_dropped_total\\{kind="${kind}"\\} (\\d+)$`, 'm');
    return Number(line.exec(await registry.render())?.[1]);
  };
  return { otlp, lines, dropped };
}

function tracerOf(otlp: OtlpExport, sampleRatio?: number): Tracer {
  return new Tracer({
    clock: systemClock,
    random: systemRandom,
    sinks: [otlp.spans],
    ...(sampleRatio === undefined ? {} : { sampleRatio }),
  });
}

describe.each(['grpc', 'http/protobuf'] as const)('over %s', (protocol) => {
  it('spans arrive with their place in the trace, what is known of them, and how they ended', async () => {
    const collector = await startCollector(protocol);
    const { otlp } = await openExport(protocol, collector.url);
    const caller = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`;
    const beforeNs = BigInt(Date.now()) * 1_000_000n;
    const root = tracerOf(otlp).begin('http-request', { traceparent: caller }, { kind: 'server' });
    const first = root.child('dispatch', { kind: 'client', attributes: { worker_id: '2a', dp_rank: 1 } });
    first.end('Disconnected');
    const second = root.child('dispatch', { kind: 'client', links: [first.context] });
    second.end();
    root.set({ 'request.outcome': 'success', ttft_ms: 1.5, is_stream: true, absent: undefined });
    root.end();
    await otlp.flush();
    const [one, two, top] = collector.spans;
    expect(collector.spans.map(({ name }) => name)).toEqual(['dispatch', 'dispatch', 'http-request']);
    expect(top).toMatchObject({
      service: 'edge',
      traceId: 'ab'.repeat(16),
      spanId: root.context.spanId,
      parentSpanId: 'cd'.repeat(8),
      kind: 2,
      statusCode: 0,
      attributes: { 'request.outcome': 'success', ttft_ms: 1.5, is_stream: true },
    });
    expect(top!.attributes).not.toHaveProperty('absent');
    expect(one).toMatchObject({ parentSpanId: root.context.spanId, kind: 3, statusCode: 2 });
    expect(one!.attributes).toEqual({ worker_id: '2a', dp_rank: 1, 'error.type': 'Disconnected' });
    expect(two!.links).toEqual([first.context.spanId]);
    expect(top!.startNs).toBeGreaterThanOrEqual(beforeNs);
    expect(top!.endNs).toBeGreaterThanOrEqual(two!.endNs);
  });

  it('log lines arrive with their span, and without secrets', async () => {
    const collector = await startCollector(protocol);
    const { otlp } = await openExport(protocol, collector.url);
    const { logger } = captureLogger();
    logger.mirrorTo(otlp.lines);
    const ids = { trace_id: 'ab'.repeat(16), span_id: 'cd'.repeat(8) };
    logger.for('http').warn('Bearer abcdef was refused', { ...ids, status: 401, api_key: 'k', list: [1, 2] });
    logger.info('not of a request');
    await otlp.flush();
    expect(collector.lines).toEqual([
      {
        service: 'edge',
        severityText: 'WARN',
        body: 'Bearer *** was refused',
        attributes: { target: 'http', status: 401, api_key: '***', list: '[1,2]' },
        traceId: ids.trace_id,
        spanId: ids.span_id,
      },
      {
        service: 'edge',
        severityText: 'INFO',
        body: 'not of a request',
        attributes: { target: 'stator' },
        traceId: '',
        spanId: '',
      },
    ]);
  });

  it('closing sends what waits', async () => {
    const collector = await startCollector(protocol);
    const { otlp } = await openExport(protocol, collector.url);
    tracerOf(otlp).begin('last', {}).end();
    await otlp.close();
    expect(collector.spans).toHaveLength(1);
  });

  it('the end of a process sends how often lines were left out', async () => {
    const collector = await startCollector(protocol);
    const env = {
      OTEL_EXPORT_ENABLED: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
    };
    const log = countAllRepeats(captureLogger().logger, systemClock);
    const { settings } = resolveConfig('frontend', [], env);
    const time = { clock: systemClock, random: systemRandom };
    const telemetry = await openTelemetry(settings, time, log, undefined);
    for (let at = 0; at < 4; at++) log.warn('away');
    await telemetry.close();
    const told = collector.lines.map(({ body, attributes }) => [body, Number(attributes.untold ?? 0)]);
    expect(told).toEqual([
      ['away', 0],
      ['away', 3],
    ]);
  });

  it('a collector that is away costs what it would have got, and two lines', { timeout: 30_000 }, async () => {
    const port = await freePort();
    const { otlp, lines, dropped } = await openExport(protocol, `http://127.0.0.1:${port}`);
    const tracer = tracerOf(otlp);
    tracer.begin('lost', {}).end();
    await waitUntil(
      async () => {
        await otlp.flush();
        return lines.length > 0;
      },
      { timeoutMs: 20_000 },
    );
    const collector = await startCollector(protocol, port);
    await waitUntil(async () => {
      tracer.begin('sent', {}).end();
      await otlp.flush();
      return collector.spans.length > 0;
    });
    await waitUntil(() => lines.length === 2);
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'OTLP export fails'],
      ['info', 'OTLP export works again'],
    ]);
    expect(lines[0]!.fields).toMatchObject({ signal: 'traces', reason: expect.any(String) });
    expect(await dropped('spans')).toBe(lines[1]!.fields.lost);
    expect(await dropped('lines')).toBe(0);
  });
});

it('puts the path of the signal behind the general endpoint over HTTP, and leaves endpoints of a signal as they are', async () => {
  expect(
    otlpTargets({
      otelExporterOtlpEndpoint: 'http://c:4318/',
      otelExporterOtlpTracesProtocol: 'http/protobuf',
      otelExporterOtlpLogsProtocol: 'grpc',
    }),
  ).toEqual({
    traces: { protocol: 'http/protobuf', url: 'http://c:4318/v1/traces' },
    logs: { protocol: 'grpc', url: 'http://c:4318/' },
  });
  const own = { otelExporterOtlpTracesEndpoint: 'http://t:1/in', otelExporterOtlpLogsEndpoint: 'http://l:2' };
  expect(
    otlpTargets({
      otelExporterOtlpEndpoint: 'http://c',
      ...own,
      otelExporterOtlpTracesProtocol: 'http/protobuf',
      otelExporterOtlpLogsProtocol: 'http/protobuf',
    }),
  ).toEqual({
    traces: { protocol: 'http/protobuf', url: 'http://t:1/in' },
    logs: { protocol: 'http/protobuf', url: 'http://l:2' },
  });
});

it('counts what finds no room', async () => {
  const collector = await startCollector('http/protobuf');
  const { otlp, dropped } = await openExport('http/protobuf', collector.url);
  const { logger } = captureLogger();
  logger.mirrorTo(otlp.lines);
  const tracer = tracerOf(otlp);
  const made = 4000; // in one turn: next to nothing can leave
  for (let at = 0; at < made; at++) {
    tracer.begin('many', {}).end();
    logger.info('many');
  }
  const lost = [await dropped('spans'), await dropped('lines')];
  for (const count of lost) expect(count).toBeGreaterThan(1000);
  await waitUntil(async () => {
    await otlp.flush();
    const { spans, lines } = collector;
    return isDeepStrictEqual([made - spans.length, made - lines.length], lost);
  });
  tracer.begin('there is room again', {}).end();
  await otlp.flush();
  expect(collector.spans.at(-1)?.name).toBe('there is room again');
  expect([await dropped('spans'), await dropped('lines')]).toEqual(lost);
});

it('sends only what is sampled', async () => {
  const collector = await startCollector('http/protobuf');
  const { otlp } = await openExport('http/protobuf', collector.url);
  const tracer = tracerOf(otlp, 0);
  tracer.begin('new, and not sampled', {}).end();
  tracer.begin('sampled by its caller', { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01` }).end();
  tracer.begin('not sampled by its caller', { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-00` }).end();
  await otlp.flush();
  expect(collector.spans.map(({ name }) => name)).toEqual(['sampled by its caller']);
});
