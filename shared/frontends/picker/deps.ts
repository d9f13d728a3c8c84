import type { Clock, Random } from '../../clock/index.ts';
import type { Pipeline, Placer, RoutableModel } from '../../pipeline/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import type { Logger, MetricRegistry } from '../../telemetry/index.ts';
import type { HttpApp } from '../http/app.ts';
import type { HttpSettings } from '../http/settings.ts';
import type { ByteBudget } from '../inference/deps.ts';
import type { Endpoints } from './endpoints.ts';
import type { SentRequests } from './sent-requests.ts';

/** Outcomes of requests at the picker. */
const PICK_OUTCOMES = ['picked', 'any', 'answered', 'left', 'silent', 'mode_refused', 'order_refused'] as const;

type PickOutcome = (typeof PICK_OUTCOMES)[number];

/** Dependencies of picking endpoints. */
export interface PickerDeps {
  readonly app: Pick<HttpApp, 'serve' | 'generates' | 'refuse'>;
  readonly pipeline: Pipeline;
  readonly placer: Placer;
  readonly models: { list(): readonly RoutableModel[] };
  readonly settings: HttpSettings;
  readonly responseStore: ResponseStore | undefined;
  readonly bodies: ByteBudget;
  readonly endpoints: Endpoints;
  /** Endpoints behind the first one, for gateways that try again. */
  readonly fallbacks: number;
  /** Requests that workers have not answered yet. */
  readonly sent: SentRequests;
  readonly clock: Pick<Clock, 'nowMs' | 'after'>;
  /** Longest silence of a gateway within a request, in milliseconds. */
  readonly silenceMsMax: number;
  readonly random: Pick<Random, 'below'>;
  readonly logger: Logger;
  readonly metrics: PickerMetrics;
}

/** Counts what happens to requests at the picker. */
export interface PickerMetrics {
  opened(): void;
  closed(): void;
  ended(outcome: PickOutcome): void;
  /** Another endpoint than the picked one has answered. */
  servedElsewhere(): void;
  /** A gateway has sent a request again before it had an answer. */
  sentAgain(): void;
}

/** Registers the metrics of the picker. */
export function createPickerMetrics(registry: MetricRegistry): PickerMetrics {
  const streams = registry.gauge('stator_endpoint_picker_streams', 'Requests that a gateway has open at the picker.');
  const outcomes = registry.counter(
    'stator_endpoint_picker_requests_total',
    'Requests of gateways, by their outcome at the picker.',
    'outcome',
  );
  const elsewhere = registry.counter(
    'stator_endpoint_picker_served_elsewhere_total',
    'Requests that another endpoint than the picked one has answered.',
  );
  const again = registry.counter(
    'stator_endpoint_picker_sent_again_total',
    'Requests that a gateway sent again before it had an answer.',
  );
  for (const outcome of PICK_OUTCOMES) outcomes.with(outcome);
  elsewhere.with();
  again.with();
  return {
    opened: () => streams.with().add(1),
    closed: () => streams.with().add(-1),
    ended: (outcome) => outcomes.with(outcome).add(),
    servedElsewhere: () => elsewhere.with().add(),
    sentAgain: () => again.with().add(),
  };
}
