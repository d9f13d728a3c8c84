import type { Settings } from '../../config/index.ts';
import type { ServiceApp } from '../../router/standalone/index.ts';

/** Settings of `stator router`. */
export type ServiceSettings = Settings<'router'>;

/** A standalone service that answers HTTP. */
export interface RunningService {
  readonly app: ServiceApp;
  /** Where it listens unless the settings say otherwise. */
  readonly port: number;
  close(): Promise<void>;
}
