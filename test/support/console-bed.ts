import type { TokenPrice } from '../../shared/config/index.ts';
import type { ConsoleSources } from '../../shared/console/console.ts';
import { FleetConsole, type OpenConsole, type PlannerSource } from '../../shared/console/index.ts';
import type { EndpointRecord, FleetLoads } from '../../shared/discovery/index.ts';
import type { RoutableModel } from '../../shared/pipeline/index.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** A fleet that a test changes, and the console that shows it. */
export interface ConsoleBed {
  readonly console: FleetConsole;
  readonly open: OpenConsole;
  /** Number of times that the console has looked at the models. */
  looks(): number;
  setModels(models: readonly RoutableModel[]): void;
  setInstances(instances: readonly EndpointRecord[]): void;
  setLoads(loads: FleetLoads): void;
  /** Number of open watches of loads. */
  watches(): number;
  /** Ids of the workers that were ordered to drain. */
  readonly drained: readonly string[];
  /** Sets the output tokens of a model so far. */
  setTokens(model: string, tokens: number): void;
}

/** Further sources and settings. @default none */
interface BedOptions extends Pick<ConsoleSources, 'cacheOf' | 'peers'> {
  readonly planners?: PlannerSource;
  readonly prices?: ConsoleSources['facts']['prices'];
  readonly tokenPrices?: readonly TokenPrice[];
  /** Whether the console keeps prompts and answers. @default false */
  readonly showsPrompts?: boolean;
}

const NO_PLANNERS: PlannerSource = { howToStart: 'Start one.', open: undefined };

/** Opens a console of a fleet in memory. @param kept requests that it remembers */
export function openConsoleBed(
  clock: VirtualClock,
  kept = 1000,
  { showsPrompts = false, prices = [], tokenPrices = [], ...more }: BedOptions = {},
): ConsoleBed {
  const tokens = new Map<string, number>();
  const console = new FleetConsole({
    ...{ clock, kept, showsPrompts, tokenPrices },
    outputTokensOf: (model) => tokens.get(model) ?? 0,
  });
  let models: readonly RoutableModel[] = [];
  let looks = 0;
  let tell = (_: FleetLoads): void => {};
  let loads: FleetLoads = new Map();
  const drained: string[] = [];
  let instances: readonly EndpointRecord[] = [];
  let watches = 0;
  const followers = new Set<() => void>();
  const open = console.open({
    directory: {
      list: () => {
        looks++;
        return models;
      },
      known: (name) => models.find((model) => model.name === name),
      instances: () => instances,
      follow: (follower) => {
        followers.add(follower);
        return () => void followers.delete(follower);
      },
    },
    discovery: {
      watchLoads: (listener) => {
        tell = listener;
        watches++;
        listener(loads);
        return {
          close: () => {
            watches--;
            tell = () => {};
          },
        };
      },
      orderDrain: async (ids) => {
        const known = ids.filter((id) => models.some(({ workers }) => workers.some((worker) => worker.id === id)));
        drained.push(...known);
        return known;
      },
    },
    facts: {
      version: '1',
      chatPath: '/v1/chat/completions',
      explains: false,
      host: 'h',
      pid: 7,
      prices,
      stage: () => 'ready',
    },
    planners: NO_PLANNERS,
    ...more,
  });
  return {
    console,
    open,
    drained,
    watches: () => watches,
    looks: () => looks,
    setModels: (next) => {
      models = next;
      for (const follower of followers) follower();
    },
    setInstances: (next) => {
      instances = next;
    },
    setLoads: (next) => {
      loads = next;
      tell(next);
    },
    setTokens: (model, count) => void tokens.set(model, count),
  };
}
