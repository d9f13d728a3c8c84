import { describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { TopicFollower } from '../../../shared/worker-events/index.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { waitUntil } from '../../support/wait-until.ts';

const SCOPE = { kind: 'namespace', namespace: 'ns' } as const;

describe('publishers of a topic', () => {
  it('are reported together when thousands join and leave at once, each name a few times at most', async () => {
    const clock = systemClock;
    const random = seededRandom(1);
    const hub = new MemoryHub(clock);
    const eventPlane = createMemoryEventPlane({ clock, random });
    const publishing = new MemoryDiscovery({ hub, clock, random });
    const publisher = await eventPlane.publisher(SCOPE, 't');
    const { transport } = publisher;
    const recordOf = (at: number) =>
      ({
        type: 'EventChannel',
        scope: SCOPE,
        topic: 't',
        instance_id: at.toString(16),
        transport,
        worker_id: `w${at}`,
      }) as const;
    const count = 3000;
    const records = Array.from({ length: count }, (_, at) => recordOf(at));
    await Promise.all(records.map((record) => publishing.put(record)));
    let names = 0;
    let latest = -1;
    const discovery = new MemoryDiscovery({ hub, clock, random });
    const follower = new TopicFollower({
      ...{ discovery, eventPlane, clock, logger: silentLogger, scope: SCOPE, topic: 't' },
      listener: { event: () => {} },
      onPublishers: (workers) => {
        names += workers.size;
        latest = workers.size;
      },
    });
    await waitUntil(() => latest === count, { what: 'all are told' });
    await publishing.close(); // its records go with it
    await waitUntil(() => latest === 0, { what: 'all have left' });
    expect(names).toBeLessThan(4 * count);
    await follower.close();
    await discovery.close();
    await publisher.close();
  });
});
