import { stepBounds } from './buckets.ts';
import { type Gauge, type MetricRegistry, OVERFLOW_LABEL } from './registry.ts';

/** Seconds; a start of a worker takes from seconds to a quarter of an hour. */
const WAIT_SECONDS = [0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 900];

/** Returns the metrics of requests that wait for a worker to be started. */
export function createHoldMetrics(registry: MetricRegistry) {
  const { counter, gauge, histogram } = registry.under('stator_frontend_');
  const waiting = gauge('held_requests', 'Requests that wait for a worker of the model.', 'model');
  const seconds = histogram('hold_seconds', 'Time that held requests waited.', WAIT_SECONDS, 'model', 'outcome');
  const timeouts = counter('hold_timeouts_total', 'Requests that waited for a worker in vain.', 'model');
  const refused = counter('hold_refused_total', 'Requests that found no room to wait for a worker.', 'model');
  return {
    /** Sets how many requests of the model wait now. */
    holding: (model: string, count: number) => waiting.with(model).set(count),
    /** Counts a request that waits no more. */
    held: (model: string, outcome: 'served' | 'timeout' | 'cancelled' | 'refused', waitedMs: number): void => {
      if (outcome === 'refused') refused.with(model).add();
      else seconds.with(model, outcome).observe(waitedMs / 1000);
      if (outcome === 'timeout') timeouts.with(model).add();
    },
  };
}

/** Requests of one model that wait for a worker. */
interface Demand {
  /** Namespace of the model's workers. */
  readonly namespace: string;
  /** Name of the model at its workers. */
  readonly ownName: string;
  readonly count: number;
}

/**
 * Returns the metric by which a scaler of the operator starts the first worker of a model. It has a series for each
 * model that the process knows, also while the model has no worker.
 */
export function createDemandMetrics(registry: MetricRegistry) {
  const help = 'Requests of a model that wait for a worker: held ones, and those in the queue of the own router.';
  const family = registry.gauge('stator_held_requests', help, 'dynamo_namespace', 'model');
  const shown = new Set<Gauge>(); // at most one for each series of the family, which has a bound
  return {
    /** Shows at each scrape what `read` returns. A model that it no longer names has no waiting request. */
    readDemandFrom: (read: () => readonly Demand[]): void => {
      registry.beforeScrape(() => {
        for (const series of shown) series.set(0);
        for (const { namespace, ownName, count } of read()) {
          const series = family.with(namespace, ownName);
          shown.add(series);
          series.add(count);
        }
      });
    },
  };
}

/** Outcomes of a write of the note of held requests. */
const NOTE_OUTCOMES = ['written', 'removed', 'failed'] as const;

export type HeldNoteMetrics = ReturnType<typeof createHeldNoteMetrics>;

/** Returns the metrics of the notes from which planners learn what functions hold. */
export function createHeldNoteMetrics(registry: MetricRegistry) {
  const help = "Writes and removals of this process's note of held requests.";
  const notes = registry.counter('stator_frontend_held_notes_total', help, 'outcome');
  for (const outcome of NOTE_OUTCOMES) notes.with(outcome);
  return { noted: (outcome: (typeof NOTE_OUTCOMES)[number]): void => notes.with(outcome).add() };
}

/** Returns the metrics of model files that are read from other places. */
export function createArtifactMetrics(registry: MetricRegistry) {
  const { counter } = registry.under('stator_artifact_');
  const reads = counter('reads_total', 'Files of models read from elsewhere.', 'source', 'outcome');
  const bytes = counter('read_bytes_total', 'Bytes of files of models read from elsewhere.', 'source');
  return {
    /** A file was read from that kind of source, and was what was asked for, or not. */
    read: (source: string, outcome: 'fetched' | 'wrong' | 'failed', length: number): void => {
      reads.with(source, outcome).add();
      bytes.with(source).add(length);
    },
  };
}

/** Returns the metrics of a frontend that was asked to stop. */
export function createDrainMetrics(registry: MetricRegistry) {
  const cut = registry
    .counter('stator_frontend_drain_cut_total', 'Answers that the end of the process cut off.')
    .with();
  return {
    /** Counts the answers that had not reached their clients when the grace was over. */
    cut: (answers: number) => cut.add(answers),
  };
}

/** Returns the metrics of the bytes held for requests under way. Each function sets how many there are now. */
export function createHeldBytesMetrics(registry: MetricRegistry) {
  const { gauge } = registry.under('stator_frontend_');
  const bodies = gauge('body_bytes', 'Bytes of request bodies that are being read.').with();
  const answers = gauge('answer_bytes', 'Memory of answers that are kept until they are whole, about.').with();
  return { bodies: (bytes: number) => bodies.set(bytes), answers: (bytes: number) => answers.set(bytes) };
}

/** Returns the metrics of workers that fall silent. */
export function createStallMetrics(registry: MetricRegistry) {
  const { counter, gauge } = registry.under('stator_frontend_');
  const stalled = gauge('stalled_workers', 'Workers that get no request until a canary passes.', 'model');
  const stalls = counter('worker_stalls_total', 'Times that a worker fell silent.', 'model');
  const canaries = counter('canaries_total', 'Canaries sent to silent workers.', 'outcome');
  return {
    workerStalled: (model: string): void => {
      stalls.with(model).add();
      stalled.with(model).add(1);
    },
    workerRecovered: (model: string) => stalled.with(model).add(-1),
    canary: (outcome: 'passed' | 'failed') => canaries.with(outcome).add(),
  };
}

/** Returns the metrics of prompts that are computed ahead of their turns. */
export function createSpeculationMetrics(registry: MetricRegistry) {
  const prefills = registry.counter(
    'stator_frontend_speculative_prefills_total',
    'Prompts of next turns chosen to be computed ahead, by what became of them.',
    'model',
    'outcome',
  );
  return { speculated: (model: string, outcome: string): void => prefills.with(model, outcome).add() };
}

const STATES = ['pending', 'active', 'unavailable'] as const;

/** Returns the metrics of prompts that are computed apart from their answers. */
export function createDisaggregationMetrics(registry: MetricRegistry) {
  const alone = registry.counter(
    'dynamo_frontend_decode_only_fallback_total',
    'Prompts that a decode worker computed because no prefill worker did.',
    'model',
  );
  const states = registry.gauge(
    'stator_frontend_prefill_state',
    '1 for the state of the prefill workers of a model that has decode workers.',
    'model',
    'state',
  );
  return {
    /** A decode worker computed a prompt that a prefill worker should have. */
    decodedAlone: (model: string) => alone.with(model).add(),
    setState: (model: string, now: (typeof STATES)[number]): void => {
      for (const state of STATES) states.with(model, state).set(state === now ? 1 : 0);
    },
  };
}

/** Returns the metrics of a request plane: the observer that the plane reports to. */
export interface RequestPlaneMetrics {
  bytesSent(count: number): void;
  bytesReceived(count: number): void;
  /** A connection failed or broke the protocol. */
  connectionError(): void;
  /** Calls under way at this caller changed by one. */
  inflight(delta: 1 | -1): void;
  /** From the call until it was handed to an open connection. */
  queued(seconds: number): void;
  /** From then until a worker took it on. */
  acknowledged(seconds: number): void;
  /** From then until its first output. */
  firstOutput(seconds: number): void;
  /**
   * A caller gave a call up or its connection was lost; once a call, on the worker's side. Not counted here:
   * `WorkerRequestMeter.end` does, which also knows of calls that were stopped.
   */
  cancelled(): void;
}

export function createRequestPlaneMetrics(registry: MetricRegistry): RequestPlaneMetrics {
  const { gauge, histogram } = registry.under('dynamo_request_plane_');
  const { counter } = registry.under('dynamo_transport_tcp_');
  const short = stepBounds(0.0001, 1);
  const queue = histogram('queue_seconds', 'Time that a call waited for an open connection.', short).with();
  const send = histogram('send_seconds', 'Time from the send to the acknowledgement by a worker.', short).with();
  const first = histogram(
    'roundtrip_ttft_seconds',
    'Time from the acknowledgement to the first output.',
    stepBounds(0.001, 5),
  ).with();
  const inflight = gauge('inflight_requests', 'Calls under way.').with();
  const sent = counter('bytes_sent_total', 'Bytes written to connections.').with();
  const received = counter('bytes_received_total', 'Bytes read from connections.').with();
  const errors = counter('errors_total', 'Connections that failed or broke the protocol.').with();
  // Node accepts by itself, so this one stays at zero.
  counter('accept_backoff_total', 'Pauses of a listener that could not accept.');
  return {
    bytesSent: (count) => sent.add(count),
    bytesReceived: (count) => received.add(count),
    connectionError: () => errors.add(),
    inflight: (delta) => inflight.add(delta),
    queued: (seconds) => queue.observe(seconds),
    acknowledged: (seconds) => send.observe(seconds),
    firstOutput: (seconds) => first.observe(seconds),
    cancelled: () => {},
  };
}

/** Owners with series of their own; the others share one. */
const OWNERS_MAX = 100;

/** Returns the metrics of API keys. */
export function createAccessMetrics(registry: MetricRegistry) {
  const { counter } = registry.under('stator_frontend_');
  const refused = counter('access_refused_total', 'Requests that were not let in.', 'reason');
  const reads = counter('key_reads_total', 'Reads of the store of API keys.', 'outcome');
  const requests = counter('owner_requests_total', 'Requests for generating, by the owner of the key.', 'owner');
  const tokens = counter('owner_tokens_total', 'Tokens of prompts and answers, by the owner of the key.', 'owner');
  const owners = new Set<string>();
  const labelOf = (owner: string): string => {
    if (owners.has(owner)) return owner;
    if (owners.size >= OWNERS_MAX) return OVERFLOW_LABEL;
    owners.add(owner);
    return owner;
  };
  return {
    /** A request was not let in. */
    refused: (reason: string) => refused.with(reason).add(),
    /** The store of keys was asked. */
    read: (outcome: 'found' | 'unknown' | 'failed') => reads.with(outcome).add(),
    /** A request that generates was let in. */
    admitted: (owner: string) => requests.with(labelOf(owner)).add(),
    /** Tokens of prompts and answers were used. */
    spent: (owner: string, amount: number) => tokens.with(labelOf(owner)).add(amount),
  };
}

/** Returns the metrics of the fleet view, for processes that read one. */
export function createDiscoveryMetrics(registry: MetricRegistry) {
  const { counter, gauge } = registry.under('stator_discovery_');
  const age = gauge('view_age_seconds', 'Age of the fleet view when it was read last.').with();
  const gathers = gauge('gathering', 'Whether this process gathers the fleet view for all.').with();
  const readings = counter(
    'readings_total',
    'Readings of the fleet: of the view, of the leases in place of a view that is too old, or to gather the view.',
    'source',
  );
  return {
    /** A reading was made; the view that it shows was written `ageMs` ago. */
    read: (source: 'view' | 'leases' | 'gathered', ageMs: number): void => {
      readings.with(source).add();
      age.set(ageMs / 1000);
    },
    /** Whether this process gathers the view for all. */
    gathering: (isGathering: boolean) => gathers.set(isGathering ? 1 : 0),
  };
}

/** Parts that routers share and that can be away: the label `part`. */
export type SharedPart = (typeof PARTS)[number];

const PARTS = ['table', 'log', 'snapshots', 'replicas'] as const;

/** Returns the metrics of the state that a process shares with other routers. Nothing here throws or waits. */
export type RouterStateMetrics = ReturnType<typeof createRouterStateMetrics>;

export function createRouterStateMetrics(registry: MetricRegistry) {
  const state = registry.under('stator_router_state_');
  const index = registry.under('stator_router_index_');
  const problems = state.counter('problems_total', 'Failures of what routers share.', 'part');
  const away = state.gauge('away', '1 while the router goes on with what it last knew.', 'part');
  const hydrations = index.counter(
    'hydrations_total',
    'Indexes that were made anew, from a snapshot or from dumps of the workers.',
    'from',
  );
  const snapshots = index.counter('snapshots_total', 'Snapshots written.').with();
  const leases = state.gauge('lease_held', '1 if this process writes for the others.', 'component');
  for (const part of PARTS) {
    problems.with(part);
    away.with(part);
  }
  return {
    /** A call failed, or something was found damaged. */
    problem: (part: SharedPart) => problems.with(part).add(),
    /** Whether the process goes on with what it last knew, for want of `part`. */
    away: (part: SharedPart, isAway: boolean) => away.with(part).set(isAway ? 1 : 0),
    /** The index of a component was made anew. */
    hydrated: (from: 'snapshot' | 'dumps') => hydrations.with(from).add(),
    snapshotWritten: () => snapshots.add(),
    /** Whether this process writes the snapshots of the component. */
    leaseHeld: (component: string, isHeld: boolean) => leases.with(component).set(isHeld ? 1 : 0),
  };
}

/** Outcome of an event for the planner's queue. A newer event includes everything that a `superseded` one counted. */
const OUTCOMES = ['sent', 'superseded', 'expired', 'no_room', 'no_time', 'handed_over', 'too_long'] as const;

/** Returns the metrics of events on their way to a planner. */
export type PlannerQueueMetrics = ReturnType<typeof createPlannerQueueMetrics>;

export function createPlannerQueueMetrics(registry: MetricRegistry) {
  const { counter, gauge } = registry.under('stator_planner_queue_');
  const waiting = gauge('waiting_events', 'Events for the planner that wait to be sent.').with();
  const events = counter('events_total', 'Events for the planner, by what became of them.', 'outcome');
  const failures = counter('failures_total', 'Times that the planner queue took no events.').with();
  for (const outcome of OUTCOMES) events.with(outcome);
  return {
    /** Sets how many wait to be sent now. */
    waiting: (count: number) => waiting.set(count),
    ended: (outcome: (typeof OUTCOMES)[number], count: number) => events.with(outcome).add(count),
    /** The queue did not take what it was sent. */
    failed: () => failures.add(),
  };
}
