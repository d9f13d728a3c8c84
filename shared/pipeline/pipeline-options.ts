import type { Clock, Random } from '../clock/index.ts';
import type { RequestPlane } from '../planes/index.ts';
import type { Router } from '../router/index.ts';
import type { Inhibition } from '../scheduler/index.ts';
import type { PromptEncoder } from '../tokens/index.ts';
import type { ExplanationSource } from './control/routing-explainer.ts';
import type { LiveModelDirectory } from './models/model-directory.ts';
import type { ModelStore } from './models/model-store.ts';
import type { Worker } from './models/routable-model.ts';
import type { BusyThresholds, BusyThresholdValues, PipelineObserver } from './pipeline.ts';
import type { MediaMemory } from './prompt/media-memory.ts';
import type { ColdStartQueue } from './run/cold-start-queue.ts';
import type { Bypass } from './run/prefill-stage.ts';

/** Dependencies and settings of a pipeline. */
export interface PipelineOptions {
  readonly models: LiveModelDirectory;
  readonly store: ModelStore;
  /** Router. Its owner passes it the workers when `models` change. */
  readonly router: Router<Worker>;
  /** Inhibition of the router, to which the pipeline reports workers that fail. */
  readonly inhibition: Inhibition;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  /** Encodes prompts. @default one without a cache and without threads */
  readonly encoder?: PromptEncoder;
  /** Memory of what engines made of media. @default an empty one */
  readonly media?: MediaMemory;
  /** Source of the ids of tool calls. @default systemRandom */
  readonly random?: Random;
  readonly observer: PipelineObserver;
  /** Most moves of one request to another worker. @default 3 */
  readonly migrationLimit?: number;
  /** Tokens of prompt and output above which a request no longer moves. @default no limit */
  readonly migrationTokensMax?: number | undefined;
  /** Longest silence of a worker within a stream, 0 = no bound. In milliseconds. @default 0 */
  readonly streamSilenceMsMax?: number;
  /**
   * Silence within a stream, in milliseconds, after which its worker gets no new request until a canary passes. 0 =
   * never.
   * @default 0
   */
  readonly stallMs?: number;
  /** Longest time for the first answer of a worker, in milliseconds. @default 0 */
  readonly warmUpMs?: number | undefined;
  /** Longest wait for the answer to a canary, in milliseconds. @default 3000, less if `stallMs` is less */
  readonly canaryTimeoutMs?: number;
  /**
   * Whether to hide tools from the template when `tool_choice` is `none`; a model's card may also say no.
   * @default true
   */
  readonly excludesUnusableTools?: boolean;
  /**
   * Tokens of a choice for requests that name no number (`STATOR_MAX_TOKENS_DEFAULT`).
   * @default what the context leaves
   */
  readonly maxTokensDefault?: number | undefined;
  /**
   * Whether a failed prefill fails its request (`--enforce-disagg`). Otherwise the decode worker computes the prompt.
   * @default false
   */
  readonly enforcesPrefill?: boolean;
  /** Explains where a request would go. @default absent: requests that ask for it are answered like others */
  readonly explanations?: Pick<ExplanationSource, 'explain'> | undefined;
  /** Most prompts of next turns that are computed ahead at the same time, for requests that ask for it. @default 16 */
  readonly speculativePrefillsMax?: number;
  /** Decides when a decode worker computes a prompt itself (`--router-conditional-disagg`). @default never */
  readonly bypassesPrefill?: Bypass | undefined;
  /**
   * Queue of requests whose model has no worker. Its owner calls `look` after every change of `models`. @default such
   * requests fail
   */
  readonly hold?: ColdStartQueue | undefined;
  /** Busy thresholds of every model until others are set. @default none */
  readonly thresholds?: BusyThresholds;
  /** Called with a worker to which no connection could be made. @default nothing is called */
  readonly onUnreachable?: (workerId: string) => void;
  /** Returns the workers above `limits`. @default none */
  readonly busyWorkers?: (workers: readonly Worker[], limits: BusyThresholdValues) => ReadonlySet<string> | undefined;
}
