import type { Clock } from '../../clock/index.ts';
import type { RequestPlane } from '../../planes/request/index.ts';
import type { Router } from '../../router/index.ts';
import type { Inhibition } from '../../router/indexless/index.ts';
import type { EncodeStage } from '../disaggregation/encode-stage.ts';
import type { PrefillStage } from '../disaggregation/prefill-stage.ts';
import type { StreamWatch } from '../health/stream-watch.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';
import type { PipelineObserver } from '../types.ts';
import type { Hold } from './hold.ts';

/** What every run of one pipeline shares. */
export interface RunContext {
  readonly router: Router;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly observer: PipelineObserver;
  /** Undefined when silent workers are waited for without end. */
  readonly streamWatch: StreamWatch | undefined;
  /** Workers that get no new request. */
  readonly stalledWorkers: ReadonlySet<string>;
  /** Workers that turned a request away because they are full: passed over until their next report, while another is left. */
  readonly fullWorkers: Inhibition;
  /** Where media are encoded apart; undefined = nowhere. */
  readonly encode?: EncodeStage | undefined;
  /** Where prompts are computed apart; undefined = nowhere. */
  readonly prefill?: PrefillStage | undefined;
  /** Times that one request may move to another worker. */
  readonly migrationLimit: number;
  /** Prompt plus output above this is no longer moved; undefined = no limit. */
  readonly migrationTokensMax: number | undefined;
  /** Where requests wait while nobody can take them; undefined = they fail. */
  readonly hold: Hold | undefined;
  /** Those of `workers` that are above the busy thresholds of `model`; undefined where it has none. */
  busyOf(model: RoutableModel, workers: readonly Worker[]): ReadonlySet<string> | undefined;
  /** The workers of `model` now. */
  workersOf(model: RoutableModel): readonly Worker[];
}
