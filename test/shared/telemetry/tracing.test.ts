import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { ServeError } from '../../../shared/errors/index.ts';
import { inSpan, type Span, Tracer } from '../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { logSpans, type SpanSink } from '../../../shared/telemetry/tracing.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function start(sampleRatio = 1) {
  const clock = new VirtualClock();
  const { logger, lines } = captureLogger();
  const ended: Span[] = [];
  const sink: SpanSink = { ended: (span) => ended.push(span) };
  const sinks = [sink, logSpans(logger.for('spans'))];
  const tracer = new Tracer({ clock, random: seededRandom(7), sampleRatio, sinks });
  return { clock, tracer, ended, lines };
}

const CALLER = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`;

describe('spans', () => {
  it('stand below the caller and above their parts, and name themselves to the process that is called', () => {
    const { tracer } = start();
    const root = tracer.begin('http-request', { traceparent: CALLER, tracestate: 'a=b' });
    const part = root.child('dispatch');
    expect(root.context).toMatchObject({ traceId: 'ab'.repeat(16), parentSpanId: 'cd'.repeat(8), tracestate: 'a=b' });
    expect(part.context).toMatchObject({ traceId: root.context.traceId, parentSpanId: root.context.spanId });
    expect(part.context.traceparent).toBe(`00-${root.context.traceId}-${part.context.spanId}-01`);
    expect(part.context.spanId).not.toBe(root.context.spanId);
  });

  it('last from beginning to the first end, which counts', async () => {
    const { clock, tracer, ended } = start();
    const span = tracer.begin('a', {});
    expect(span.durationMs).toBeUndefined();
    await clock.advance(12);
    span.end('overload');
    await clock.advance(5);
    span.end();
    expect(ended).toEqual([span]);
    expect([span.durationMs, span.error]).toEqual([12, 'overload']);
  });

  it('are sampled in their share, decided by the trace alone', () => {
    const { tracer } = start(0.25);
    const flags = Array.from({ length: 4000 }, () => tracer.begin('a', {}).context.traceFlags);
    const sampled = flags.filter((flag) => flag === 1).length;
    expect(sampled).toBeGreaterThan(850);
    expect(sampled).toBeLessThan(1150);
    expect(tracer.begin('a', { traceparent: CALLER }).context.traceFlags).toBe(1);
  });

  it('are logged when they begin and end, with what is known then', async () => {
    const { clock, tracer, lines } = start();
    const root = tracer.begin('http-request', {}, { attributes: { method: 'POST' } });
    const part = root.child('route');
    await clock.advance(2.5);
    part.end('service_unavailable');
    root.set({ output_tokens: 3 });
    root.end();
    expect(lines.map(({ message, fields }) => [message, fields.span_name])).toEqual([
      ['SPAN_FIRST_ENTRY', 'http-request'],
      ['SPAN_FIRST_ENTRY', 'route'],
      ['SPAN_CLOSED', 'route'],
      ['SPAN_CLOSED', 'http-request'],
    ]);
    expect(lines[2]!.fields).toMatchObject({
      trace_id: root.context.traceId,
      parent_id: root.context.spanId,
      'time.duration_us': 2500,
      'error.type': 'service_unavailable',
    });
    expect(lines[3]!.fields).toMatchObject({ method: 'POST', output_tokens: 3 });
    expect(lines[3]!.fields).not.toHaveProperty('parent_id');
  });
});

describe('inSpan', () => {
  it('does the work without a parent, and makes nothing', () => {
    expect(inSpan(undefined, 'tokenize', () => 7)).toBe(7);
  });

  it('ends with the work, whether it returns, throws, resolves or rejects', async () => {
    const { tracer, ended } = start();
    const root = tracer.begin('root', {});
    const fault = new ServeError('service_unavailable', 'nobody');
    expect(inSpan(root, 'returns', () => 1)).toBe(1);
    expect(() =>
      inSpan(root, 'throws', () => {
        throw fault;
      }),
    ).toThrow(fault);
    expect(await inSpan(root, 'resolves', () => Promise.resolve(2))).toBe(2);
    await expect(inSpan(root, 'rejects', () => Promise.reject(fault))).rejects.toBe(fault);
    expect(ended.map(({ name, error }) => [name, error])).toEqual([
      ['returns', undefined],
      ['throws', 'service_unavailable'],
      ['resolves', undefined],
      ['rejects', 'service_unavailable'],
    ]);
  });
});
