import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../shared/clock/index.ts';
import { createFrontendMetrics, createWorkerMetrics } from '../../../shared/telemetry/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { parseFamilies, parseSamples } from './prometheus-text.ts';

const LABELS = 'dynamo_namespace="ns",dynamo_component="backend",dynamo_endpoint="generate",model="m"';

function worker() {
  const clock = new VirtualClock();
  const metrics = createWorkerMetrics({
    namespace: 'ns',
    component: 'backend',
    endpoint: 'generate',
    model: 'm',
    clock,
  });
  const value = async (name: string, labels = LABELS): Promise<number | undefined> =>
    parseSamples(await metrics.render()).get(`dynamo_component_${name}{${labels}}`);
  return { clock, metrics, value };
}

describe('a worker’s /metrics', () => {
  it('has the published names, types and labels, at zero before the first request', async () => {
    const { metrics } = worker();
    const names = ['dynamo_component', 'dynamo_endpoint', 'dynamo_namespace', 'model'];
    const families = parseFamilies(await metrics.render());
    const own = [...families].filter(([name]) => name.startsWith('dynamo_component_'));
    expect(Object.fromEntries(own.map(([name, { type, labels }]) => [name.slice(17), [type, labels]]))).toEqual({
      requests_total: ['counter', names],
      request_bytes_total: ['counter', names],
      response_bytes_total: ['counter', names],
      cancellation_total: ['counter', names],
      errors_total: ['counter', [...names.slice(0, 3), 'error_type', 'model']],
      inflight_requests: ['gauge', names],
      request_duration_seconds: ['histogram', names],
      time_to_first_response_seconds: ['histogram', names],
      uptime_seconds: ['gauge', names],
      total_blocks: ['gauge', []],
      gpu_cache_usage_percent: ['gauge', []],
      model_load_time_seconds: ['gauge', names],
      kv_publisher_engines_dropped_events_total: ['counter', names],
    });
  });

  it('reads, byte for byte, as recorded', async () => {
    const { clock, metrics } = worker();
    const meter = metrics.requestStarted(512);
    await clock.advance(30);
    meter.firstResponse();
    meter.responseBytes(40);
    await clock.advance(70);
    meter.end('success');
    metrics.requestStarted().end('generate');
    metrics.setLoad({ dpRank: 0, usedKvBlocks: 25, totalKvBlocks: 100 });
    metrics.setModelLoadTime(1500);
    metrics.droppedKvEvents(2);
    expect(await metrics.render()).toMatch(/dynamo_component_kv_publisher_engines_dropped_events_total\{.*\} 2\n/);
    await expect(await metrics.render()).toMatchFileSnapshot('../../fixtures/telemetry/worker.prom');
  });

  it('counts a request from its start to its end, and nothing after', async () => {
    const { clock, metrics, value } = worker();
    const meter = metrics.requestStarted(10);
    expect(await value('inflight_requests')).toBe(1);
    await clock.advance(20);
    meter.firstResponse();
    await clock.advance(20);
    meter.firstResponse();
    meter.end('success');
    meter.end('generate');
    expect(await value('inflight_requests')).toBe(0);
    expect(await value('requests_total')).toBe(1);
    expect(await value('request_bytes_total')).toBe(10);
    expect(await value('time_to_first_response_seconds_sum')).toBe(0.02);
    expect(await value('request_duration_seconds_sum')).toBe(0.04);
    expect(await value('errors_total', `${LABELS},error_type="generate"`)).toBe(0);
  });

  it('counts errors by where they happened, and a cancellation once', async () => {
    const { metrics, value } = worker();
    metrics.requestStarted().end('invalid_message');
    metrics.requestStarted().end('cancelled');
    metrics.requestPlane.cancelled();
    expect(await value('errors_total', `${LABELS},error_type="invalid_message"`)).toBe(1);
    expect(await value('cancellation_total')).toBe(1);
    expect(await value('requests_total')).toBe(2);
  });

  it('shows the use of each rank’s cache, none when there is no cache', async () => {
    const { metrics, value } = worker();
    metrics.setLoad({ dpRank: 0, usedKvBlocks: 25, totalKvBlocks: 100 });
    metrics.setLoad({ dpRank: 1, usedKvBlocks: 0, totalKvBlocks: 0 });
    expect(await value('gpu_cache_usage_percent', `${LABELS},dp_rank="0"`)).toBe(0.25);
    expect(await value('gpu_cache_usage_percent', `${LABELS},dp_rank="1"`)).toBe(0);
    expect(await value('total_blocks', `${LABELS},dp_rank="0"`)).toBe(100);
  });
});

describe('the request plane’s metrics', () => {
  it('count bytes, connections, calls and times', async () => {
    const metrics = createFrontendMetrics({ clock: new VirtualClock() });
    const plane = metrics.requestPlane;
    plane.bytesSent(100);
    plane.bytesReceived(200);
    plane.connectionError();
    plane.inflight(1);
    plane.inflight(1);
    plane.inflight(-1);
    plane.queued(0.0004);
    plane.acknowledged(0.002);
    plane.firstOutput(0.2);
    plane.cancelled();
    const samples = parseSamples(await metrics.render());
    expect(samples.get('dynamo_transport_tcp_bytes_sent_total')).toBe(100);
    expect(samples.get('dynamo_transport_tcp_bytes_received_total')).toBe(200);
    expect(samples.get('dynamo_transport_tcp_errors_total')).toBe(1);
    expect(samples.get('dynamo_request_plane_inflight_requests')).toBe(1);
    expect(samples.get('dynamo_request_plane_queue_seconds_bucket{le="0.0005"}')).toBe(1);
    expect(samples.get('dynamo_request_plane_send_seconds_bucket{le="0.005"}')).toBe(1);
    expect(samples.get('dynamo_request_plane_roundtrip_ttft_seconds_bucket{le="0.5"}')).toBe(1);
  });
});

/** A virtual clock whose timers fire late by what `lateMs` says. */
function lateClock(): { readonly clock: Clock; readonly base: VirtualClock; lateMs: number } {
  const base = new VirtualClock();
  const state = {
    base,
    lateMs: 0,
    clock: {
      nowMs: () => base.nowMs(),
      wallMs: () => base.wallMs(),
      after: (delayMs: number, callback: () => void) => base.after(delayMs + state.lateMs, callback),
      every: (periodMs: number, callback: () => void) => base.every(periodMs, callback),
      sleep: (delayMs: number, signal?: AbortSignal) => base.sleep(delayMs, signal),
    },
  };
  return state;
}

describe('the event loop watch', () => {
  it('counts how late timers of 10 ms fire, and stalls above 5 ms', async () => {
    const late = lateClock();
    const metrics = createFrontendMetrics({ clock: late.clock });
    metrics.watchEventLoop();
    await late.base.advance(10); // on time
    late.lateMs = 5;
    await late.base.advance(10); // the timer armed before is on time too
    await late.base.advance(15); // 5 ms late: not yet a stall
    late.lateMs = 30;
    await late.base.advance(15);
    await late.base.advance(40); // 30 ms late
    const samples = parseSamples(await metrics.render());
    expect(samples.get('dynamo_frontend_event_loop_delay_seconds_count')).toBe(5);
    expect(samples.get('dynamo_frontend_event_loop_delay_seconds_bucket{le="0"}')).toBe(2);
    expect(samples.get('dynamo_frontend_event_loop_delay_seconds_bucket{le="0.005"}')).toBe(4);
    expect(samples.get('dynamo_frontend_event_loop_stall_total')).toBe(1);
  });

  it('leaves no timer behind when stopped', async () => {
    const clock = new VirtualClock();
    const watch = createFrontendMetrics({ clock }).watchEventLoop();
    await clock.advance(100);
    watch.stop();
    expect(clock.pendingTimers).toBe(0);
  });
});
