import type { CountedWorkers } from '../host/decide.ts';
import type { Targets } from '../types.ts';

/** Workers as an environment knows them. */
export interface Observed {
  /** Undefined: what is heard of workers counts. */
  readonly counted?: CountedWorkers | undefined;
  /** Seconds from a decision to a worker that serves: the 90th percentile, where it is known. */
  readonly startSeconds?: number | undefined;
}

/** What has become of targets that were handed over. */
export type Handed =
  /** They are what the environment is to make true; the same as before, or new ones. */
  | 'accepted'
  /** Earlier ones are not carried out yet: to be handed over again later. */
  | 'waiting';

/** Makes what was decided true. What is handed over are absolute numbers, so that doing it twice does no harm. */
export interface Connector {
  readonly name: string;
  observe(signal: AbortSignal): Promise<Observed>;
  scale(targets: Targets, signal: AbortSignal): Promise<Handed>;
  /** Whether the environment has carried out what was accepted last. */
  isSettled(signal: AbortSignal): Promise<boolean>;
  close(): Promise<void>;
}
