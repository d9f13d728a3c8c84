import type { Gate, RequestNames } from '../../access/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import type { CacheClearer, Pipeline, RequestCanceller, RoutingExplainer } from '../../pipeline/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import type { FrontendMetrics, Logger, RequestRecorder, Tracer } from '../../telemetry/index.ts';
import type { ByteBudget } from './bodies/byte-budget.ts';
import type { ServiceLifecycle } from './lifecycle.ts';
import type { HttpSettings } from './settings.ts';

/** The part of the frontend's metrics that HTTP handlers count on. */
export type FrontendMetricsPort = Pick<
  FrontendMetrics,
  | 'startRequest'
  | 'embedded'
  | 'rejected'
  | 'cancelled'
  | 'disconnected'
  | 'failed'
  | 'limitReached'
  | 'ignoredKeys'
  | 'contentType'
  | 'render'
>;

/** What the HTTP app works with. */
export interface HttpAppDeps {
  readonly pipeline: Pipeline;
  readonly metrics: FrontendMetricsPort;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: HttpSettings;
  /** Room for the bodies that are being read, of all requests of the process. */
  readonly bodies: ByteBudget;
  /** Room for the answers that are kept until they are whole, of all requests of the process. */
  readonly answers: ByteBudget;
  /** Asks for API keys; undefined = nobody needs one. */
  readonly gate?: Gate | undefined;
  /** Makes the names by which other edges find running requests; undefined = each knows its own alone. */
  readonly names?: RequestNames | undefined;
  /** Where responses are kept; undefined = nowhere. */
  readonly responseStore: ResponseStore | undefined;
  /** Takes note of every request; undefined = nobody does. */
  readonly records?: Pick<RequestRecorder, 'requestEnded'> | undefined;
  /** Makes a span of every inference request; undefined = none are made. */
  readonly tracer?: Tracer | undefined;
  /** What `/health` lists, from memory: the same list until one comes or goes. */
  readonly instances: () => readonly EndpointRecord[];
  /** Empties the workers' caches; absent = nobody can be asked. */
  readonly caches?: Pick<CacheClearer, 'clear'> | undefined;
  /** Ends requests of other edges; absent = only those of this process can be ended. */
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  /** Says why requests go where they go; absent in modes that know nothing of caches. */
  readonly explainer?: Pick<RoutingExplainer, 'explained' | 'explain'> | undefined;
  readonly lifecycle: ServiceLifecycle;
}
