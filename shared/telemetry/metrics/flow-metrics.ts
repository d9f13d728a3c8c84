import type { MetricRegistry } from './registry.ts';

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
export interface ArtifactMetrics {
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
export interface DisaggregationMetrics {
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
