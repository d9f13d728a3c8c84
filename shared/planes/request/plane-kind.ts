import type { CallerSettings, FleetSettings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { ConnectionOptions } from './frames/settings.ts';
import type { RequestPlane } from './types.ts';

/** What is the same for every plane that a process opens. */
export interface OpenPlaneOptions extends ConnectionOptions {
  /** Told of outages. */
  readonly logger?: Logger | undefined;
  /** Attempts to reach a broker before requests fail. @default no limit */
  readonly brokerAttemptsMax?: number;
}

/** How a process opens a plane as its settings say. Throws one line for an operator where they cannot be followed. */
export interface RequestPlaneKind {
  /** For a process that only calls. */
  openCalling(settings: CallerSettings, options: OpenPlaneOptions): RequestPlane;
  /** For one that serves. */
  openServing(settings: FleetSettings, options: OpenPlaneOptions): RequestPlane;
}
