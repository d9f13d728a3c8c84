import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import { type RoutableModel, setsOf } from '../../pipeline/index.ts';
import { EmbeddedMetrics, type MetricRegistry, openStandardError } from '../../telemetry/index.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';

/** Interval between two values, in milliseconds. It gives several values a minute, which CloudWatch merges into one. */
const PERIOD_MS = 15_000;

interface PublishingDeps {
  readonly clock: Clock;
  readonly registry: MetricRegistry;
  readonly lifecycle: Pick<ServiceLifecycle, 'inflight'>;
  /** Returns each model once. */
  readonly models: () => readonly RoutableModel[];
  /** Returns the age of the fleet view; undefined if discovery keeps no view. */
  readonly viewAgeMs: () => number | undefined;
  /** Returns when the secrets of the fleet were first in force, in Unix ms. @default unknown */
  readonly secretsSinceMs?: (() => number | undefined) | undefined;
  /** Writes lines, with their line ends. @default to standard error, like the log */
  readonly write?: ((text: string) => void) | undefined;
}

/**
 * Publishes the metrics of a process on a server to CloudWatch from now on. Returns undefined unless `STATOR_EMF` asks
 * for it.
 */
export function publishMetrics(settings: EdgeSettings, deps: PublishingDeps): PublishedMetrics | undefined {
  const { emf: isWanted, emfService: name } = settings;
  return isWanted === true && name !== undefined ? new PublishedMetrics(name, settings, deps) : undefined;
}

class PublishedMetrics extends EmbeddedMetrics {
  readonly #stop: () => void;

  constructor(name: string, { roles = ['http'] }: EdgeSettings, deps: PublishingDeps) {
    const { clock, registry, lifecycle, models, viewAgeMs, write = openStandardError().write } = deps;
    const servesClients = roles.some((role) => role !== 'router');
    super({
      source: { dimension: 'Service', name },
      nowMs: () => clock.wallMs(),
      totals: (metric, label) => registry.totalsBy(metric, label),
      gauges: () => {
        const ageMs = viewAgeMs();
        const sinceMs = deps.secretsSinceMs?.();
        return {
          ...(servesClients ? { activeStreams: lifecycle.inflight } : {}),
          ...(ageMs === undefined ? {} : { viewAgeMs: ageMs }),
          ...(sinceMs === undefined ? {} : { secretAgeMs: Math.max(0, clock.wallMs() - sinceMs) }),
          workers: new Map(models().map((model) => [model.name, workersOf(model)])),
        };
      },
      write,
    });
    const timer = clock.every(PERIOD_MS, () => this.flush());
    this.#stop = () => timer.cancel();
  }

  /** Writes the values since the last time, and stops. */
  close(): void {
    this.#stop();
    this.flush();
  }
}

/** Returns a watch on the age of the fleet view, which is undefined until there is a view. */
export function watchView(clock: Clock) {
  let writtenMs: number | undefined;
  return {
    /** Takes note of a view that was written `ageMs` ago. */
    seen: (ageMs: number): void => {
      writtenMs = clock.nowMs() - ageMs;
    },
    ageMs: () => (writtenMs === undefined ? undefined : Math.max(0, clock.nowMs() - writtenMs)),
  };
}

/** Returns the number of workers that a request of the model may go to. */
function workersOf(model: RoutableModel): number {
  return model.readiness.isReady ? setsOf(model).reduce((sum, { workers }) => sum + workers.length, 0) : 0;
}
