import type { Clock } from '../clock/index.ts';
import type { ResolvedConfig, Settings } from '../config/index.ts';
import type { CheckedFile } from '../discovery/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { Engine, EngineInfo } from './types.ts';

/** What is known of the model apart from its engine. All of it is optional for engines that take text. */
export interface ModelFacts {
  /** Files by role (`config.json`, `tokenizer.json`, ...). */
  readonly files?: Readonly<Record<string, CheckedFile>>;
  /** Context length of the architecture, in tokens. */
  readonly contextLength?: number | undefined;
  /** Folder or repository of the model. */
  readonly sourcePath?: string | undefined;
}

/** An engine with what is known of its model, or how to find out once the engine has loaded it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly model: ModelFacts | ((engine: EngineInfo) => Promise<ModelFacts>);
}

/** What an engine needs of its worker beside the settings. */
export interface EngineContext {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Its place among the engines of the process. */
  readonly at: number;
  onDroppedKvEvents(count: number): void;
}

/** What a worker is told to do with its engine (`--disaggregation-mode`). */
export type EngineRole = Settings<'worker'>['disaggregationMode'];

/** How a worker comes to its engine: one value of `--engine`. */
export interface EngineKind {
  /** Roles beside `agg`. @default none */
  readonly roles?: readonly EngineRole[];
  /** A process may have several, as many as `--num-workers` says. @default false */
  readonly isSeveral?: boolean;
  /** What the model's card says of the engine. @default nothing */
  readonly runtimeData?: Readonly<Record<string, unknown>>;
  /** The name that clients use; undefined where the engine's own name is best. */
  displayName(settings: Settings<'worker'>): string | undefined;
  /**
   * Opens one engine; it is started later. Of the settings that nobody gave, some are the engine's to choose.
   *
   * @throws ConfigError for settings that it cannot have
   */
  open(config: ResolvedConfig<'worker'>, context: EngineContext): Promise<OpenedEngine>;
}
