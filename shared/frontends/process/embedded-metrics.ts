import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { RoutableModel } from '../../pipeline/index.ts';
import { EmbeddedMetrics, type MetricRegistry, openStandardError } from '../../telemetry/index.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';

/** Several values a minute, of which CloudWatch makes one. */
const PERIOD_MS = 15_000;

interface PublishingParts {
  readonly clock: Clock;
  readonly registry: MetricRegistry;
  readonly lifecycle: Pick<ServiceLifecycle, 'inflight'>;
  /** Each once. */
  readonly models: () => readonly RoutableModel[];
  /** Of what is known of the fleet; undefined where discovery keeps no view. */
  readonly viewAgeMs: () => number | undefined;
  /** When the secrets of the fleet were first in force, Unix ms. @default nobody knows */
  readonly secretsSinceMs?: (() => number | undefined) | undefined;
  /** Takes lines, with their ends. @default standard error, as for the log */
  readonly write?: ((text: string) => void) | undefined;
}

/** Tells CloudWatch of a process that lasts, from now on; undefined where nobody asked for it (`STATOR_EMF`). */
export function publishMetrics(settings: EdgeSettings, parts: PublishingParts): PublishedMetrics | undefined {
  const { emf: isWanted, emfService: name } = settings;
  return isWanted === true && name !== undefined ? new PublishedMetrics(name, settings, parts) : undefined;
}

class PublishedMetrics extends EmbeddedMetrics {
  readonly #stop: () => void;

  constructor(name: string, { roles = ['http'] }: EdgeSettings, parts: PublishingParts) {
    const { clock, registry, lifecycle, models, viewAgeMs, write = openStandardError().write } = parts;
    const servesClients = roles.some((role) => role !== 'router');
    super({
      source: { dimension: 'Service', name },
      nowMs: () => clock.wallMs(),
      totals: (metric, label) => registry.totalsBy(metric, label),
      gauges: () => {
        const ageMs = viewAgeMs();
        const sinceMs = parts.secretsSinceMs?.();
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

  /** Writes what has come since the last time, and no more. */
  close(): void {
    this.#stop();
    this.flush();
  }
}

/** Follows how old the fleet view is; undefined until there was one. */
export function watchView(clock: Clock) {
  let writtenMs: number | undefined;
  return {
    /** A view was read that had been written `ageMs` ago. */
    seen: (ageMs: number): void => {
      writtenMs = clock.nowMs() - ageMs;
    },
    ageMs: () => (writtenMs === undefined ? undefined : Math.max(0, clock.nowMs() - writtenMs)),
  };
}

/** Those that a request of the model may go to. */
function workersOf({ readiness, workers }: RoutableModel): number {
  return readiness.isReady ? workers.length : 0;
}
