import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../../shared/clock/index.ts';
import { MetricRegistry, Tracer } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { countDroppedTelemetry } from '../../../../shared/telemetry/metrics/registry.ts';
import { openOtlp } from '../../../../shared/telemetry/otlp/open-otlp.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A collector that reads each request and then does as `answer` says. */
async function start(answer: Answer) {
  let asked = 0;
  const server = createServer((request, response) => {
    asked++;
    request.resume().once('end', () => answer(request, response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const target = {
    protocol: 'http/protobuf',
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
  } as const;
  const { logger, lines } = captureLogger();
  const registry = new MetricRegistry();
  const clock = new VirtualClock();
  const otlp = await openOtlp({
    traces: target,
    logs: target,
    attributes: { 'service.name': 'edge' },
    exportMsMax: 300,
    spanDelayMs: 10,
    clock,
    logger,
    onDropped: countDroppedTelemetry(registry),
  });
  cleanups.push(() => {
    void otlp.close();
    return clock.advance(10_000);
  });
  const tracer = new Tracer({ clock: systemClock, random: systemRandom, sinks: [otlp.spans] });
  const dropped = async (): Promise<number> =>
    Number(/^stator_telemetry_dropped_total\{kind="spans"\} (\d+)$/m.exec(await registry.render())?.[1]);
  return { clock, tracer, lines, dropped, asked: () => asked };
}

const REFUSALS: readonly (readonly [string, Answer])[] = [
  ['reads that it may retry in an hour', (_, response) => response.writeHead(429, { 'retry-after': '3600' }).end()],
  ['reads each time that it may retry at once', (_, response) => response.writeHead(503, { 'retry-after': '0' }).end()],
  ['reads no time for a retry', (_, response) => response.writeHead(503).end()],
  ['reads an invalid time for a retry', (_, response) => response.writeHead(429, { 'retry-after': 'soon' }).end()],
  ['has failed', (_, response) => response.writeHead(500).end('no')],
  ['wants a key', (_, response) => response.writeHead(401).end('no')],
  ['is somewhere else', (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
  ['is cut off', (request) => request.socket.destroy()],
  ['is never answered', () => {}],
  ['reads far more than it wants', (_, response) => response.writeHead(500).end(Buffer.alloc(8 << 20))],
  ['reads the beginning of an answer', (_, response) => response.writeHead(500, { 'content-length': '9' }).write('x')],
];

describe('a process that sends spans', () => {
  it.each(REFUSALS)('%s: loses them, logs it once, and counts each', async (_, answer) => {
    const { clock, tracer, lines, dropped } = await start(answer);
    for (let at = 0; at < 700; at++) tracer.begin('lost', {}).end(); // more than one batch
    await waitUntil(
      async () => {
        await clock.advance(20);
        return (await dropped()) === 700;
      },
      { timeoutMs: 20_000 },
    );
    expect(lines.map(({ message }) => message)).toEqual(['OTLP export fails']);
    expect(lines[0]!.fields).toMatchObject({ signal: 'traces', reason: expect.any(String) });
  });

  it('never waits for one that takes its time, and drops what finds no room', async () => {
    const { clock, tracer, dropped, asked } = await start(() => {});
    const made = 10_000;
    for (let at = 0; at < made; at++) tracer.begin('many', {}).end(); // in one turn
    expect(await dropped()).toBeGreaterThan(made - 3000);
    await waitUntil(() => asked() > 0);
    await waitUntil(
      async () => {
        await clock.advance(50);
        return (await dropped()) === made;
      },
      { timeoutMs: 20_000 },
    );
  });

  it('goes on when an answer never ends', async () => {
    const { clock, tracer, lines, dropped, asked } = await start((_, response) => {
      response.writeHead(200);
      const drip = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(drip));
    });
    for (const count of [1, 2]) {
      tracer.begin('lost', {}).end();
      await waitUntil(() => asked() === count);
      await clock.advance(2000);
      await waitUntil(async () => (await dropped()) === count);
    }
    expect(lines).toHaveLength(1);
    expect(lines[0]!.fields.reason).toBe('the collector is too slow');
  });

  it('keeps no text longer than a kilobyte, and no more than 32 of a list', () => {
    const tracer = new Tracer({ clock: systemClock, random: systemRandom, sinks: [] });
    const span = tracer.begin('a', {}, { attributes: { model: `${'x'.repeat(1023)}😀`, nothing: undefined } });
    span.set({ stops: Array.from({ length: 100 }, () => 'y'.repeat(2000)), none: null as never });
    expect(span.attributes.model).toBe('x'.repeat(1023));
    expect(span.attributes.stops).toEqual(Array.from({ length: 32 }, () => 'y'.repeat(1024)));
    expect(Object.keys(span.attributes)).toEqual(['model', 'stops']);
  });
});
