import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { PartWatch, SharedRouterState } from '../../../shared/fleet/index.ts';
import { watched } from '../../../shared/fleet/router-state.ts';
import type { EventLog, EventPlane } from '../../../shared/planes/index.ts';
import type { SnapshotStore } from '../../../shared/router-state/index.ts';
import type { ComponentFeed } from '../../../shared/router-state/snapshots/component-index.ts';
import { createRouterStateMetrics, MetricRegistry } from '../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import type { KvEventFeed } from '../../../shared/worker-events/kv-event-feed.ts';
import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { createMemorySnapshotStore } from '../../support/router/memory-snapshot-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { ScriptedEventLog } from '../router-state/event-log.ts';

type Fault = 'table' | 'log' | 'follow' | 'store';

/** What several routers share, each part of which can be away. */
function world() {
  const clock = new VirtualClock();
  const hub = new MemoryRouterStateHub(clock);
  const faults = new Set<Fault>();
  const scripted = new ScriptedEventLog();
  const log = faulty<EventLog>(scripted, (name) => faults.has(name === 'follow' ? 'follow' : 'log'));
  return { clock, hub, faults, log, scripted, objects: createMemorySnapshotStore() };
}

/** The same part, whose calls are refused while `isAway`. */
function faulty<T extends object>(part: T, isAway: (name: string) => boolean): T {
  return new Proxy(part, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      const isRefused = (): boolean => name !== 'close' && name !== 'nowMs' && isAway(String(name));
      return (...given: unknown[]) =>
        isRefused() ? Promise.reject(new Error(`no ${String(name)}`)) : Reflect.apply(member, target, given);
    },
  });
}

function router(
  { clock, hub, faults, log, objects }: ReturnType<typeof world>,
  { component = 'backend', seed = 1 } = {},
) {
  const registry = new MetricRegistry();
  const { logger, lines } = captureLogger();
  const watch = new PartWatch(createRouterStateMetrics(registry), logger.for('router'));
  const { settings } = resolveConfig('frontend', ['--router-mode=kv'], { STATOR_SNAPSHOT_INTERVAL_SECS: '2' });
  const shared = new SharedRouterState({
    ...{ settings, clock, random: seededRandom(seed), logger, watch },
    state: watched(
      faulty(hub.open(), () => faults.has('table')),
      watch,
      'table',
    ),
    openStore: (): SnapshotStore => faulty(objects, () => faults.has('store')),
  });
  const ranks = new RankTable();
  ranks.intern('a1', 0);
  const pool = { name: 'set', workerIds: new Set(['a1']), isWhole: true, index: new BlockIndex({ ranks }) };
  const plane = { log: async () => log } as unknown as EventPlane;
  const open = (of: string) => {
    const source = shared.sourceOf(plane, { namespace: 'ns', component: of }, () => [pool]);
    source?.start(feed);
    return source;
  };
  const source = open(component);
  const away = async (part: string): Promise<number> => {
    const text = await registry.render();
    return Number(new RegExp(`^stator_router_state_away\\{part="${part}"\\} (\\d)$`, 'm').exec(text)?.[1]);
  };
  const told = (part: string): string[] =>
    lines.flatMap(({ message, fields }) =>
      fields.part !== part ? [] : [/last known/.test(message) ? 'away' : 'back'],
    );
  const close = async (): Promise<void> => {
    await source?.stop();
    await shared.close();
  };
  return { open, away, told, close };
}

/** A feed of one rank that knows nothing and cannot be asked. */
const part: ComponentFeed & { restoreAll(): void } = {
  received: () => {},
  places: () => [],
  resume: () => {},
  ranks: () => [{ workerId: 'a1', dpRank: 0 }],
  recover: () => Promise.reject(new Error('the worker does not answer')),
  restoreAll: () => {},
};
const feed = part as unknown as KvEventFeed;

async function pass(clock: VirtualClock, seconds: number): Promise<void> {
  for (let turn = 0; turn < seconds * 20; turn++) await clock.advance(50);
}

describe('the report that a part which routers share is away or back', () => {
  it.each<[Fault, string]>([
    ['table', 'table'],
    ['log', 'log'],
    ['store', 'snapshots'],
  ])('%s, twice', async (fault, part) => {
    const all = world();
    const { away, told, close } = router(all);
    await pass(all.clock, 15);
    expect(await away(part)).toBe(0);
    for (let time = 1; time <= 2; time++) {
      all.faults.add(fault);
      for (let at = 0; at < 3; at++) all.scripted.append(at); // so that a snapshot is due
      await pass(all.clock, 40);
      expect([await away(part), told(part).length]).toEqual([1, 2 * time - 1]);
      all.faults.delete(fault);
      await pass(all.clock, 90);
      expect([await away(part), told(part).length]).toEqual([0, 2 * time]);
    }
    expect(told(part)).toEqual(['away', 'back', 'away', 'back']);
    await close();
  });

  it('a log that answers and cannot be followed is away until it is', async () => {
    const all = world();
    all.faults.add('follow');
    const { away, told, close } = router(all);
    await pass(all.clock, 20);
    expect([await away('log'), told('log')]).toEqual([1, ['away']]);
    all.faults.delete('follow');
    await pass(all.clock, 20);
    expect([await away('log'), told('log')]).toEqual([0, ['away', 'back']]);
    await close();
  });

  it('snapshots are back at a router that reads them only', async () => {
    const all = world();
    const writer = router(all);
    await pass(all.clock, 15);
    all.scripted.append('stored');
    await pass(all.clock, 15);
    all.faults.add('store');
    const reader = router(all, { seed: 2 });
    await pass(all.clock, 5);
    expect(await reader.away('snapshots')).toBe(1);
    all.faults.delete('store');
    await pass(all.clock, 90);
    expect([await reader.away('snapshots'), reader.told('snapshots')]).toEqual([0, ['away', 'back']]);
    await Promise.all([reader.close(), writer.close()]);
  });

  it('a worker that cannot be asked, and a component that leaves, are no outage', async () => {
    const all = world();
    const { away, told, open, close } = router(all);
    await pass(all.clock, 5);
    expect([await away('log'), told('log')]).toEqual([0, []]);
    all.faults.add('log');
    const other = open('other');
    await pass(all.clock, 10);
    await other?.stop();
    all.faults.delete('log');
    await pass(all.clock, 20);
    expect(await away('log')).toBe(0);
    await close();
  });
});
