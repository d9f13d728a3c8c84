import { stepBounds } from './buckets.ts';
import { type MetricRegistry, OVERFLOW_LABEL } from './registry.ts';

/** What operators see of workers that fall silent. */
export interface StallMetrics {
  workerStalled(model: string): void;
  workerRecovered(model: string): void;
  canary(outcome: 'passed' | 'failed'): void;
}

/** What operators see of the bytes that are held of requests under way; each is told how many there are now. */
export interface HeldBytesMetrics {
  bodies(bytes: number): void;
  answers(bytes: number): void;
}

/** What operators see of a frontend that was told to stop. */
interface DrainMetrics {
  /** Answers that had not reached their clients when the grace was over. */
  cut(answers: number): void;
}

/** What operators see of requests that wait for a worker to be started. */
export interface HoldMetrics {
  /** So many requests of the model wait now. */
  holding(model: string, count: number): void;
  /** A request waits no more. */
  held(model: string, outcome: 'served' | 'timeout' | 'cancelled' | 'refused', waitedMs: number): void;
}

/** Seconds; a start of a worker takes from seconds to a quarter of an hour. */
const WAIT_SECONDS = [0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 900];

/** The metrics of requests that wait for a worker, in `registry`. */
export function createHoldMetrics(registry: MetricRegistry): HoldMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const waiting = registry.gauge(name('held_requests'), 'Requests that wait for a worker of the model.', ['model']);
  const seconds = registry.histogram(name('hold_seconds'), 'Time that held requests waited.', WAIT_SECONDS, [
    'model',
    'outcome',
  ]);
  const timeouts = registry.counter(name('hold_timeouts_total'), 'Requests that waited for a worker in vain.', [
    'model',
  ]);
  const refused = registry.counter(name('hold_refused_total'), 'Requests that found no room to wait for a worker.', [
    'model',
  ]);
  return {
    holding: (model, count) => waiting.with(model).set(count),
    held: (model, outcome, waitedMs) => {
      if (outcome === 'refused') return refused.with(model).add();
      if (outcome === 'timeout') timeouts.with(model).add();
      seconds.with(model, outcome).observe(waitedMs / 1000);
    },
  };
}

/** Files of models that are read from elsewhere: from what kind of source, and whether they were what was asked for. */
interface ArtifactMetrics {
  read(source: string, outcome: 'fetched' | 'wrong' | 'failed', bytes: number): void;
}

export function createArtifactMetrics(registry: MetricRegistry): ArtifactMetrics {
  const reads = registry.counter('stator_artifact_reads_total', 'Files of models read from elsewhere.', [
    'source',
    'outcome',
  ]);
  const bytes = registry.counter('stator_artifact_read_bytes_total', 'Bytes of files of models read from elsewhere.', [
    'source',
  ]);
  return {
    read: (source, outcome, length) => {
      reads.with(source, outcome).add();
      bytes.with(source).add(length);
    },
  };
}

export function createDrainMetrics(registry: MetricRegistry): DrainMetrics {
  const cut = registry
    .counter('stator_frontend_drain_cut_total', 'Answers that the end of the process cut off.')
    .with();
  cut.add(0); // shown from the start
  return { cut: (answers) => cut.add(answers) };
}

/** The metrics of the bytes that are held of requests under way, in `registry`. */
export function createHeldBytesMetrics(registry: MetricRegistry): HeldBytesMetrics {
  const bodies = registry
    .gauge('stator_frontend_body_bytes', 'Bytes of request bodies that are being read.', [])
    .with();
  const answers = registry
    .gauge('stator_frontend_answer_bytes', 'Memory of answers that are kept until they are whole, about.', [])
    .with();
  return { bodies: (bytes) => bodies.set(bytes), answers: (bytes) => answers.set(bytes) };
}

export function createStallMetrics(registry: MetricRegistry): StallMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const stalled = registry.gauge(name('stalled_workers'), 'Workers that get no request until a canary passes.', [
    'model',
  ]);
  const stalls = registry.counter(name('worker_stalls_total'), 'Times that a worker fell silent.', ['model']);
  const canaries = registry.counter(name('canaries_total'), 'Canaries sent to silent workers.', ['outcome']);
  return {
    workerStalled: (model) => {
      stalls.with(model).add();
      stalled.with(model).add(1);
    },
    workerRecovered: (model) => stalled.with(model).add(-1),
    canary: (outcome) => canaries.with(outcome).add(),
  };
}

const STATES = ['pending', 'active', 'unavailable'] as const;

/** What operators see of prompts that are computed apart. */
interface DisaggregationMetrics {
  /** A decode worker computed a prompt that a prefill worker should have. */
  decodedAlone(model: string): void;
  setState(model: string, state: (typeof STATES)[number]): void;
}

export function createDisaggregationMetrics(registry: MetricRegistry): DisaggregationMetrics {
  const alone = registry.counter(
    'dynamo_frontend_decode_only_fallback_total',
    'Prompts that a decode worker computed because no prefill worker did.',
    ['model'],
  );
  const states = registry.gauge(
    'stator_frontend_prefill_state',
    '1 for the state of the prefill workers of a model that has decode workers.',
    ['model', 'state'],
  );
  return {
    decodedAlone: (model) => alone.with(model).add(),
    setState: (model, now) => {
      for (const state of STATES) states.with(model, state).set(state === now ? 1 : 0);
    },
  };
}

/** What a process counts of its request plane: the observer that the plane reports to. */
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
   * A caller gave a call up or its connection was lost; once a call, on the worker's side. Not counted here: `WorkerRequestMeter.end`
   * does, which also knows of calls that were stopped.
   */
  cancelled(): void;
}

export function createRequestPlaneMetrics(registry: MetricRegistry): RequestPlaneMetrics {
  const plane = (name: string): string => `dynamo_request_plane_${name}`;
  const tcp = (name: string, help: string) => registry.counter(`dynamo_transport_tcp_${name}`, help).with();
  const histogram = (name: string, help: string, min: number, max: number) =>
    registry.histogram(plane(name), help, stepBounds(min, max)).with();

  const queue = histogram('queue_seconds', 'Time that a call waited for an open connection.', 0.0001, 1);
  const send = histogram('send_seconds', 'Time from the send to the acknowledgement by a worker.', 0.0001, 1);
  const first = histogram('roundtrip_ttft_seconds', 'Time from the acknowledgement to the first output.', 0.001, 5);
  const inflight = registry.gauge(plane('inflight_requests'), 'Calls under way.').with();
  const sent = tcp('bytes_sent_total', 'Bytes written to connections.');
  const received = tcp('bytes_received_total', 'Bytes read from connections.');
  const errors = tcp('errors_total', 'Connections that failed or broke the protocol.');
  tcp('accept_backoff_total', 'Pauses of a listener that could not accept.'); // Node accepts by itself: stays at zero
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

/** What operators see of API keys. */
export interface AccessMetrics {
  /** A request was not let in. */
  refused(reason: string): void;
  /** The store of keys was asked. */
  read(outcome: 'found' | 'unknown' | 'failed'): void;
  /** A request that generates was let in. */
  admitted(owner: string): void;
  /** Tokens of prompts and answers were used. */
  spent(owner: string, tokens: number): void;
}

/** Owners with series of their own; the others share one. */
const OWNERS_MAX = 100;

/** The metrics of API keys, in `registry`. */
export function createAccessMetrics(registry: MetricRegistry): AccessMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const refused = registry.counter(name('access_refused_total'), 'Requests that were not let in.', ['reason']);
  const reads = registry.counter(name('key_reads_total'), 'Reads of the store of API keys.', ['outcome']);
  const requests = registry.counter(name('owner_requests_total'), 'Requests for generating, by the owner of the key.', [
    'owner',
  ]);
  const tokens = registry.counter(
    name('owner_tokens_total'),
    'Tokens of prompts and answers, by the owner of the key.',
    ['owner'],
  );
  const owners = new Set<string>();
  const labelOf = (owner: string): string => {
    if (owners.has(owner)) return owner;
    if (owners.size >= OWNERS_MAX) return OVERFLOW_LABEL;
    owners.add(owner);
    return owner;
  };
  return {
    refused: (reason) => refused.with(reason).add(),
    read: (outcome) => reads.with(outcome).add(),
    admitted: (owner) => requests.with(labelOf(owner)).add(),
    spent: (owner, amount) => tokens.with(labelOf(owner)).add(amount),
  };
}

/** Where a reading of the fleet came from. */
type ReadingSource = 'view' | 'leases' | 'gathered';

/** What operators see of how a process knows the fleet, where discovery keeps a view of it. */
interface DiscoveryMetrics {
  /** A reading was made; the view that it shows was written `ageMs` ago. */
  read(source: ReadingSource, ageMs: number): void;
  /** Whether this process gathers the view for all. */
  gathering(isGathering: boolean): void;
}

export function createDiscoveryMetrics(registry: MetricRegistry): DiscoveryMetrics {
  const age = registry
    .gauge('stator_discovery_view_age_seconds', 'Age of the fleet view when it was read last.')
    .with();
  const gathers = registry
    .gauge('stator_discovery_gathering', 'Whether this process gathers the fleet view for all.')
    .with();
  const readings = registry.counter(
    'stator_discovery_readings_total',
    'Readings of the fleet: of the view, of the leases in place of a view that is too old, or to gather the view.',
    ['source'],
  );
  gathers.set(0);
  return {
    read: (source, ageMs) => {
      readings.with(source).add();
      age.set(ageMs / 1000);
    },
    gathering: (isGathering) => gathers.set(isGathering ? 1 : 0),
  };
}
