import type { TimeAndChance } from '../../clock/index.ts';
import type { Lifetime } from '../../concurrency/index.ts';
import type { FleetConsole, PlannerSource } from '../../console/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import type { CallingPlaneOptions, DiscoveryHost } from '../../fleet/index.ts';
import type { RequestPlane } from '../../planes/index.ts';
import type { PlannerEventOf } from '../../protocol/index.ts';
import type { FrontendMetrics, ProcessLogger, RequestRecorder, Tracer } from '../../telemetry/index.ts';
import type { HoldBounds } from './hold.ts';

/** Options that a host gives a frontend. */
export interface FrontendOptions extends TimeAndChance {
  readonly logger: ProcessLogger;
  /** Options of the connections to workers. */
  readonly plane?: CallingPlaneOptions;
  /** Choices of the host about how it uses discovery. */
  readonly discovery?: DiscoveryHost;
  /** Whether the host can follow events. A host that is frozen between requests cannot. @default true */
  readonly followsEvents?: boolean;
  /** Called when the first request of a model waits for a worker, and every 5 s while any waits. */
  readonly onHeld?: (event: PlannerEventOf<'request.held'>) => void;
  /** Longest waits for a worker that the host can keep. @default as the settings say */
  readonly holdBounds?: HoldBounds;
  /** Receives every request, beside the records that the settings ask for. */
  readonly recorder?: Pick<RequestRecorder, 'requestEnded'>;
  /** Records of planners that the console shows. @default none */
  readonly planners?: PlannerSource | undefined;
  /** Returns when the secrets of the fleet were first in force, in Unix ms; undefined while it is not known. */
  readonly secretsSinceMs?: () => number | undefined;
}

/** The objects that the steps of a frontend's composition share. */
export interface FrontendDeps extends TimeAndChance {
  /** Closes what a step opens, in reverse order. */
  readonly lifetime: Lifetime;
  readonly discovery: Discovery;
  readonly plane: RequestPlane;
  readonly metrics: FrontendMetrics;
  readonly logger: ProcessLogger;
  /** Creates spans. @default none are created */
  readonly tracer: Tracer | undefined;
  /** Whether the host can follow events. */
  readonly followsEvents: boolean;
  /** Remembers requests for the console; undefined = there is none. */
  readonly console: FleetConsole | undefined;
  /** Records of planners that the console shows; undefined = none. */
  readonly planners: PlannerSource | undefined;
  /** Whether discovery follows the fleet itself, without being asked. */
  readonly isLasting: boolean;
  /** Called while requests wait for a worker. */
  readonly onHeld: ((event: PlannerEventOf<'request.held'>) => void) | undefined;
  /** Longest waits for a worker that the host can keep. @default as the settings say */
  readonly bounds: HoldBounds | undefined;
}
