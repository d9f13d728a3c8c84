import type { TimeAndChance } from '../clock/index.ts';
import type { Environment, ResolvedConfig, Settings } from '../config/index.ts';
import type { ProcessLogger } from '../telemetry/index.ts';
import type { HostMetrics } from './host-metrics.ts';
import type { InstanceIdentity } from './instance-facts.ts';
import type { Places, Served } from './worker-command.ts';

/** Objects that the process of a host passes in. */
export interface HostDeps extends TimeAndChance {
  readonly config: ResolvedConfig<'host'>;
  readonly env: Environment;
  readonly logger: ProcessLogger;
  /** Program and first arguments that run `stator`, for workers that are processes. */
  readonly program: readonly [string, ...string[]];
  /** Resolves with the reason why the agent must end. */
  readonly stopped: Promise<string>;
  /** Writes lines for CloudWatch, with their line ends. */
  writeLine(text: string): void;
}

/** Facts about a machine that are known before its agent begins. */
export interface HostParts {
  /** Settings with the number of GPUs. */
  readonly settings: Settings<'host'>;
  /** `--host-dir`. */
  readonly folder: string;
  readonly places: Places;
  readonly served: Served;
  readonly identity: InstanceIdentity;
  readonly metrics: HostMetrics;
  /** Aborts when the agent ends. */
  readonly signal: AbortSignal;
}
