import assert from 'node:assert';
import type { Clock } from '../../clock/index.ts';
import {
  type DecisionRecord,
  Ec2Connector,
  type FleetSpec,
  type ForwardPass,
  type GroupCalls,
  type InstanceLoad,
  MemoryPlannerStore,
  type PerPool,
  type Planner,
  QueuePlanner,
} from '../../planner/index.ts';
import { groupOf } from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Fleet and law of a simulated planner. */
export interface PlannedFleet {
  readonly fleet: FleetSpec;
  readonly planner: Planner;
  /** Most GPUs of all models together. */
  readonly gpusMax: number | undefined;
  /** Passes that were measured before. */
  readonly profile: PerPool<readonly (readonly ForwardPass[])[]>;
}

interface RoundOptions extends PlannedFleet {
  readonly calls: GroupCalls;
  readonly clock: Clock;
  loadOf(instanceId: string): InstanceLoad | undefined;
  /** Orders the workers of instances to drain. */
  drain(instanceIds: readonly string[]): void;
}

/** Warnings that say what a simulation shows anyway. Any other one means that the simulator itself is wrong. */
const EXPECTED = new Set(['a decision is not carried out', 'a message says nothing to a planner']);

/**
 * The planner of a deployment in virtual time: the same code that decides and acts there takes the messages that its
 * queue would hand out, and calls simulated groups.
 */
export class PlannerRounds {
  /** Decisions that want more workers than there were, and those that want fewer. */
  ups = 0;
  downs = 0;
  readonly #planner: QueuePlanner;
  readonly #store: MemoryPlannerStore;
  readonly #group: string;
  readonly #clock: Clock;
  readonly #problems: string[] = [];
  readonly #never = new AbortController().signal;
  #decisionId: number | undefined;
  #serial = 0;

  constructor({ fleet, planner, gpusMax, profile, calls, clock, loadOf, drain }: RoundOptions) {
    const connector = new Ec2Connector({ fleet, calls, clock, loads: { of: loadOf, close: () => {} } });
    this.#clock = clock;
    this.#store = new MemoryPlannerStore(clock);
    this.#group = groupOf(fleet);
    this.#planner = new QueuePlanner({
      models: [{ group: this.#group, fleet, planner, connector, profile }],
      store: this.#store,
      clock,
      logger: this.#logger(),
      holder: 'simulated',
      gpusMax,
      orderDrain: async (instanceIds) => drain(instanceIds),
      refresh: async () => {},
      onUnknown: () => {},
      onPlanned: () => {},
      groupsOf: async () => new Map(), // every message names its model
    });
  }

  /** Handles messages of the queue: decides, and acts. */
  async handle(messages: readonly object[]): Promise<void> {
    const sentAtMs = this.#clock.wallMs();
    const records = messages.map((message) => {
      return { messageId: `${++this.#serial}`, group: this.#group, body: JSON.stringify(message), sentAtMs };
    });
    const failures = await this.#planner.handle(records, this.#never);
    assert(failures.length === 0 && this.#problems.length === 0, `the planner failed: ${this.#problems.join('; ')}`);
    const [newest] = await this.#store.decisions(this.#group, { sinceMs: 0, countMax: 1 }, this.#never);
    if (newest === undefined || newest.decisionId === this.#decisionId) return;
    this.#decisionId = newest.decisionId;
    const change = sum(newest.targets) - sum(newest.previous);
    if (change > 0) this.ups++;
    if (change < 0) this.downs++;
  }

  #logger(): Logger {
    const ignore = (): void => {};
    const warn: Logger['warn'] = (message, fields) => {
      if (!EXPECTED.has(message)) this.#problems.push(`${message} ${JSON.stringify(fields)}`);
    };
    const logger: Logger = { debug: ignore, info: ignore, warn, error: warn, with: () => logger };
    return logger;
  }
}

function sum(targets: DecisionRecord['targets']): number {
  return Object.values(targets).reduce((total, count) => total + count, 0);
}
