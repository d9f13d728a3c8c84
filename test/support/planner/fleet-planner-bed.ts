import { seededRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import { FleetPlanner, LocalConnector } from '../../../shared/planner/index.ts';
import type { FleetPlannerOptions } from '../../../shared/planner/live/fleet-planner.ts';
import { MemoryPlannerStore } from '../../../shared/planner/store/memory-store.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { createMemoryEventPlane } from '../memory-event-plane.ts';
import { VirtualClock } from '../virtual-clock.ts';
import { BEGIN_S } from './fleet-signals.ts';

export interface FleetPlannerBedOptions
  extends Partial<Pick<FleetPlannerOptions, 'connector' | 'readTraffic' | 'metrics' | 'isAlone' | 'model'>> {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly engines?: FleetPlannerOptions['planner']['engines'];
}

/** Returns a planner and an imaginary fleet of workers that send it signals, in virtual time. */
export function fleetPlannerBed({
  config = {},
  engines = { decode: { gpus: 1 } },
  ...parts
}: FleetPlannerBedOptions = {}) {
  const clock = new VirtualClock(1000 * BEGIN_S);
  const random = seededRandom(1);
  const store = new MemoryPlannerStore({ wallMs: () => clock.wallMs() });
  const { logger, lines } = captureLogger();
  const told: string[] = [];
  const scaled: number[] = [];
  const workers = {
    ready: 0,
    starting: 0,
    startSeconds: undefined,
    scaleTo: (count: number) => void scaled.push(count),
  };
  const raw = { mode: 'agg', rate_requests_per_second: 10, min_endpoint: 0, start_seconds: 60, ...config };
  const discovery = new MemoryDiscovery({ hub: new MemoryHub(clock), clock, random });
  const planner = new FleetPlanner({
    planner: { config: parsePlannerConfig(raw), engines },
    store,
    connector: new LocalConnector(workers),
    discovery,
    eventPlane: createMemoryEventPlane({ clock, random }),
    clock,
    random,
    logger,
    namespace: 'ns',
    ...parts,
    tell: (line) => void told.push(line),
  });
  /** Runs everything that needs no time, then lets `ms` pass. */
  const pass = async (ms = 0): Promise<void> => {
    for (let turn = 0; turn < 10; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(ms / 10);
    }
  };
  return { clock, store, discovery, logger, lines, told, scaled, workers, planner, pass };
}
