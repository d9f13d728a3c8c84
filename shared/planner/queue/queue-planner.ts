import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { handleBatch } from '../decide/handle-batch.ts';
import { missingPasses } from '../decide/needs-passes.ts';
import { handleQueueBatch, type QueueRecord } from '../decide/queue-batch.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { UNSCHEDULABLE } from '../kubernetes/replicas.ts';
import { type ActOptions, actOnNewest } from '../live/act.ts';
import type { Connector, Observed } from '../live/connector.ts';
import { countedOf } from '../live/counted-workers.ts';
import { viewOf } from '../live/option-views.ts';
import type { FleetSpec } from '../options/fleet-spec.ts';
import type { Planner } from '../planner.ts';
import { type FleetPlaces, toSignals } from '../signals/eventbridge-events.ts';
import type { DecisionRecord, PlannerStore } from '../store/types.ts';
import type { PerPool, Pool, Targets } from '../types.ts';
import { placesOf } from './fleet-places.ts';
import { INSTANCE_EVENTS_GROUP, routeInstanceEvents } from './instance-events.ts';

/** A model with its fleet, and what decides and acts for it. */
export interface PlannedModel {
  /** Message group of its events, and name of its state. */
  readonly group: string;
  readonly fleet: FleetSpec;
  readonly planner: Planner;
  readonly connector: Connector;
  /** Passes that were measured before; a model without any state begins with them. @default none */
  readonly profile?: PerPool<readonly (readonly ForwardPass[])[]> | undefined;
}

/** Outcome of a batch for one model. */
export interface PlannedBatch {
  /** Message group of the model. */
  readonly group: string;
  readonly hasDecided: boolean;
  /** State of its newest decision: nothing to say, not carried out, or without capacity in any option. */
  readonly newest: 'fine' | 'unapplied' | 'stalled';
  /** Failed launches of pods. @default it has no pods, or they could not be read */
  readonly podFailures?: PodFailures | undefined;
}

/** Capacity options whose newest launch failed. */
interface PodFailures {
  /** No node has room for their pods, and the pool has fewer workers than its target. */
  readonly noNode: number;
  /** Their pods have a node and do not start. */
  readonly noStart: number;
}

interface QueuePlannerOptions extends Pick<ActOptions, 'holder' | 'gpusMax' | 'orderDrain'> {
  /** Returns the names of the Auto Scaling groups of instances, for those that are in one. */
  groupsOf(instanceIds: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  readonly models: readonly PlannedModel[];
  readonly store: PlannerStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Reads what workers have reported since the last batch. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Counts messages that say nothing to a planner. */
  onUnknown(count: number): void;
  /** Hears what each batch has come to. */
  onPlanned(batch: PlannedBatch): void;
}

/** Longest look at a fleet before its messages are handled; without it the law counts the workers that it heard. */
const OBSERVE_MS_MAX = 8000;
/** Longest time in which a failure is recorded, also if the time of the batch is over. */
const RECORD_MS_MAX = 2000;

/**
 * Plans for the models of a queue: decides from each batch of messages, then acts once for each model of the batch. It
 * runs only while it handles a batch. A batch fails only if it could not be decided on. A failure of acting is in the
 * log and on the decision, and the next message of the model, at the latest its tick, acts again.
 */
export class QueuePlanner {
  readonly #options: QueuePlannerOptions;
  readonly #models: ReadonlyMap<string, PlannedModel>; // by group in lower case
  readonly #places = new Map<PlannedModel, FleetPlaces>();

  constructor(options: QueuePlannerOptions) {
    this.#options = options;
    this.#models = new Map(options.models.map((model) => [model.group.toLowerCase(), model]));
  }

  /** Returns the ids of the messages that the queue must hand out again. Rejects only if it cannot be said which. */
  async handle(given: readonly QueueRecord[], signal: AbortSignal): Promise<readonly string[]> {
    const { logger, refresh, onUnknown, onPlanned } = this.#options;
    await refresh(signal);
    const { records, lost } = await this.#route(given, signal);
    const seen = await this.#observe(records, signal);
    const handled = new Map<PlannedModel, boolean>(); // whether there was a decision
    const unknown: string[] = [];
    const failures = await handleQueueBatch(
      records,
      {
        handle: async (group, messages, within) => {
          const model = this.#modelOf(group);
          if (model === undefined) {
            unknown.push(...messages.map(() => `message group ${group}`));
            return;
          }
          const { unread, hasDecided } = await this.#decide(model, messages, seen.get(model), within);
          unknown.push(...unread);
          handled.set(model, hasDecided);
        },
        onFailed: (group, reason) =>
          logger.warn('messages were not handled; the queue hands them out again', { group, reason: reasonOf(reason) }),
      },
      signal,
    );
    // The logger writes repetitions as one line.
    for (const what of unknown) logger.warn('a message says nothing to a planner', { what });
    if (unknown.length > 0) onUnknown(unknown.length);
    const act = async ([model, hasDecided]: readonly [PlannedModel, boolean]): Promise<void> => {
      const { newest, targets } = await this.#act(model, signal);
      const podFailures = podFailuresOf(model, seen.get(model), targets);
      onPlanned({ group: model.group, hasDecided, newest, podFailures });
    };
    await Promise.all([...handled].map(act));
    return [...new Set([...lost, ...failures])]; // an event may be about several models
  }

  /** Finds the models of events about instances. If that fails, these events come again, and the others count. */
  async #route(records: readonly QueueRecord[], signal: AbortSignal) {
    try {
      return { records: await routeInstanceEvents(records, this.#options, signal), lost: [] };
    } catch (thrown) {
      const reason = reasonOf(thrown);
      this.#options.logger.warn('events about instances cannot be looked up; the queue hands them out again', {
        reason,
      });
      const [lost, others] = [true, false].map((isOf) =>
        records.filter(({ group }) => (group === INSTANCE_EVENTS_GROUP) === isOf),
      );
      return { records: others ?? [], lost: (lost ?? []).map(({ messageId }) => messageId) };
    }
  }

  #modelOf(group: string): PlannedModel | undefined {
    return this.#models.get(group.toLowerCase());
  }

  /** Returns the fleets of the models of a batch, as far as they can be read now. */
  async #observe(
    records: readonly QueueRecord[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<PlannedModel, Observed | undefined>> {
    const { clock, logger } = this.#options;
    const models = new Set(records.flatMap(({ group }) => this.#modelOf(group) ?? []));
    const observe = async (model: PlannedModel): Promise<Observed | undefined> => {
      const { connector, fleet, group } = model;
      try {
        const observed = await withDeadline({ clock, timeoutMs: OBSERVE_MS_MAX, signal }, (within) =>
          connector.observe(within),
        );
        this.#places.set(model, placesOf(fleet, observed));
        return observed;
      } catch (thrown) {
        // Signals still count: workers and tick come without Auto Scaling too.
        logger.warn('a fleet cannot be read now', { group, reason: reasonOf(thrown) });
        return undefined;
      }
    };
    return new Map(await Promise.all([...models].map(async (model) => [model, await observe(model)] as const)));
  }

  /** Handles the messages of a model. Returns the names of those that say nothing to it, and whether it decided. */
  async #decide(
    model: PlannedModel,
    messages: readonly QueueRecord[],
    observed: Observed | undefined,
    signal: AbortSignal,
  ): Promise<{ readonly unread: readonly string[]; readonly hasDecided: boolean }> {
    const { store, logger } = this.#options;
    const { group, planner, fleet, profile } = model;
    const unread: string[] = [];
    const places = this.#places.get(model) ?? placesOf(fleet);
    const environment =
      observed === undefined
        ? {}
        : { counted: countedOf(observed), fleet: viewOf(observed), startSeconds: observed.startSeconds };
    const { record } = await handleBatch(
      messages,
      {
        ...{ store, group, planner, profile, ...environment },
        translate: (body) => toSignals(body, places),
        onUnknown: (what) => unread.push(what),
        onRefused: (problem) => logger.warn('a message was refused', { group, problem }),
        onRead: (read) => {
          const problem = missingPasses(planner, read);
          if (problem !== undefined) logger.warn('the law lacks what it needs to decide', { group, problem });
        },
      },
      signal,
    );
    if (record !== undefined) {
      const { decisionId: decision_id, targets, reason } = record;
      logger.info('decided', { group, decision_id, targets: JSON.stringify(targets), reason });
    }
    return { unread, hasDecided: record !== undefined };
  }

  /** Carries out the newest decision of a model. Returns its state, and its targets if they could be read. */
  async #act(
    model: PlannedModel,
    signal: AbortSignal,
  ): Promise<{ readonly newest: PlannedBatch['newest']; readonly targets?: Targets | undefined }> {
    const { store, clock, logger, holder, gpusMax, orderDrain } = this.#options;
    const { group, connector, planner } = model;
    const { tickSeconds, startSeconds, minInstanceSeconds } = planner.config;
    const times = { tickSeconds, startSeconds, minInstanceSeconds };
    const common = { store, connector, group, holder, gpusMax, orderDrain, ...times };
    try {
      const options = { ...common, engines: planner.engines, nowMs: () => clock.wallMs() };
      const decision = await actOnNewest(options, signal);
      const targets = decision?.targets;
      if (decision?.problem === undefined) return { newest: 'fine', targets };
      const { decisionId: decision_id, problem, code, option } = decision;
      logger.warn('a decision is not carried out', { group, decision_id, problem, code, option });
      if (decision.status === 'STALLED') return { newest: 'stalled', targets };
      return { newest: isTried(decision) ? 'fine' : 'unapplied', targets };
    } catch (thrown) {
      const problem = `acting failed: ${reasonOf(thrown)}`;
      logger.warn('acting failed; the next message of the model tries again', { group, problem });
      await this.#record(group, problem);
      return { newest: 'unapplied' };
    }
  }

  /** Stores a failure on the newest decision, if that still has something to do. */
  async #record(group: string, problem: string): Promise<void> {
    const { store, clock, logger } = this.#options;
    try {
      await withDeadline({ clock, timeoutMs: RECORD_MS_MAX }, async (signal) => {
        const [newest] = await store.decisions(group, { sinceMs: 0, countMax: 1 }, signal);
        if (newest === undefined || newest.problem === problem) return;
        const { status } = newest;
        if (status === 'PENDING' || status === 'APPLYING') await store.move(group, newest, { status, problem }, signal);
      });
    } catch (thrown) {
      // The next round meets the same failure again.
      logger.warn('a failure could not be stored', { group, reason: reasonOf(thrown) });
    }
  }
}

/**
 * Counts the options of a fleet of pods that fail. An option without a node does no harm while the others bring all
 * workers: the planner has only tried whether it is available again.
 */
function podFailuresOf(
  { connector }: PlannedModel,
  observed: Observed | undefined,
  targets: Targets | undefined,
): PodFailures | undefined {
  if (connector.name === 'ec2' || observed?.pools === undefined) return undefined;
  const failures = { noNode: 0, noStart: 0 };
  for (const [pool, { ready, options }] of Object.entries(observed.pools)) {
    const isShort = ready < (targets?.[pool as Pool] ?? Number.POSITIVE_INFINITY);
    for (const { failing } of options) {
      if (failing === undefined) continue;
      if (failing.code !== UNSCHEDULABLE) failures.noStart++;
      else if (isShort) failures.noNode++;
    }
  }
  return failures;
}

/** Whether a decision with a problem is under way: it waits for something that comes by itself. */
function isTried({ status, code }: DecisionRecord): boolean {
  return (status === 'PENDING' || status === 'APPLYING') && code === undefined;
}
