import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { publishMetrics, watchView } from '../../../../shared/frontends/process/embedded-metrics.ts';
import type { RoutableModel } from '../../../../shared/pipeline/index.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { model } from '../../pipeline/fixtures.ts';

const ON = { STATOR_EMF: 'on', STATOR_EMF_SERVICE: 'edge' };

function open(env: Readonly<Record<string, string>>) {
  const clock = new VirtualClock();
  const lines: string[] = [];
  const lifecycle = { inflight: 3 };
  const view = watchView(clock);
  let models: readonly RoutableModel[] = [];
  let sinceMs: number | undefined;
  const rotated = (): void => {
    sinceMs = clock.wallMs();
  };
  const published = publishMetrics(resolveConfig('frontend', [], env).settings, {
    clock,
    registry: new MetricRegistry(),
    lifecycle,
    models: () => models,
    viewAgeMs: view.ageMs,
    secretsSinceMs: () => sinceMs,
    write: (text) => lines.push(text),
  });
  const written = () => lines.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>);
  const know = (...now: RoutableModel[]): void => {
    models = now;
  };
  return { clock, view, published, know, rotated, written };
}

describe('what a container tells CloudWatch', () => {
  it('is nothing unless it is asked to', async () => {
    const { clock, published, written } = open({});
    await clock.advance(60_000);
    expect(published).toBeUndefined();
    expect(written()).toEqual([]);
  });

  it('includes, every 15 seconds, streams, the age of the view and the workers of each model', async () => {
    const { clock, view, know, written } = open(ON);
    const ready = model({ name: 'tiny' });
    know(ready, model({ name: 'half', readiness: { ...ready.readiness, isReady: false } }));
    expect(ready.workers.length).toBeGreaterThan(0);
    view.seen(500);
    await clock.advance(15_000);
    const [first, second] = written();
    expect(first).toMatchObject({ Service: 'edge', ActiveStreams: 3, ViewAge: 15.5, Model: 'tiny' });
    expect(first).toHaveProperty('Workers', ready.workers.length);
    expect(second).toMatchObject({ Service: 'edge', Model: 'half', Workers: 0 });
    await clock.advance(15_000);
    expect(written()).toHaveLength(2);
  });

  it('grows older while no view can be read, and says nothing of one where discovery keeps none', async () => {
    const { clock, view, written } = open(ON);
    await clock.advance(15_000);
    expect(written()[0]).not.toHaveProperty('ViewAge');
    view.seen(0);
    await clock.advance(30_000);
    expect(written().map(({ ViewAge }) => ViewAge)).toEqual([15, 30]);
  });

  it('says how many days the secrets are old once it is known when they were rotated', async () => {
    const { clock, rotated, written } = open(ON);
    await clock.advance(15_000);
    expect(written()[0]).not.toHaveProperty('SecretAge');
    rotated();
    await clock.advance(49 * 3_600_000);
    expect(written().at(-1)).toMatchObject({ SecretAge: 2 });
  });

  it('has no streams where the process is a router alone', async () => {
    const { clock, know, written } = open({ ...ON, STATOR_ROLES: 'router', DYN_ROUTER_MODE: 'kv' });
    know(model());
    await clock.advance(15_000);
    expect(written()[0]).not.toHaveProperty('ActiveStreams');
  });

  it('is written a last time at the end, and then no more', async () => {
    const { clock, published, written } = open(ON);
    published?.close();
    expect(written()).toMatchObject([{ ActiveStreams: 3 }]);
    await clock.advance(60_000);
    expect(written()).toEqual([]);
  });

  it('leaves no terminal to a chat: one of both is refused', () => {
    expect(() => resolveConfig('frontend', ['--interactive'], ON)).toThrow(/interactive.*STATOR_EMF/);
  });
});
