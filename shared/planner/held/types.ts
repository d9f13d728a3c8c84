import { StoreError } from '../../discovery/index.ts';

/** Requests of a model that one process holds until a worker comes. */
export interface HeldNote {
  /** Namespace of the model's workers. */
  readonly namespace: string;
  /** Name of the model at its workers. */
  readonly model: string;
  /** Number of requests. */
  readonly count: number;
  /** Time at which the oldest of them came, as Unix ms. */
  readonly oldestAtMs: number;
}

/** Names of a model as its planner knows it. */
export type PlannedName = Pick<HeldNote, 'namespace' | 'model'>;

/** Beginning of the partition keys of notes in a table, before the model's group. */
export const HELD_PREFIX = 'HELD#';
/** Interval at which a process writes its note again while it holds requests, in milliseconds. */
export const NOTE_EVERY_MS = 5000;
/**
 * Age of a note, in milliseconds, from which it says nothing: its process has left out two writes. Planners forget a
 * source after the same time.
 */
export const NOTE_LIVE_MS = 12_000;
/** Age from which a store may delete a note, in milliseconds. A process that was killed removes none. */
export const NOTE_KEPT_MS = 60_000;
/** Most notes of a model that are read. An account begins with 1,000 environments of functions. */
export const NOTES_MAX = 10_000;

/** A failure of a store of notes, in one line that says what to do. */
export class HeldNotesError extends StoreError<'unavailable' | 'misconfigured'> {
  override readonly name = 'HeldNotesError';
}

/**
 * Store in which many processes, each with few requests, note what they hold, so that one process can tell a planner
 * the sum. Every note has one writer, `holder`. Calls end in bounded time, and reject with `HeldNotesError` or the
 * signal's reason. The clocks of writers and readers must agree within seconds; those of functions do (Amazon Time
 * Sync). A monotonic clock would not help, because it may stand still while an environment is frozen.
 */
export interface HeldNotes {
  readonly name: 'dynamodb' | 'memory';
  /** Writes what the holder holds of a model now, over what it wrote before. */
  put(holder: string, note: HeldNote, signal: AbortSignal): Promise<void>;
  /** Removes the holder's note of a model. Does nothing if there is none. */
  remove(holder: string, model: PlannedName, signal: AbortSignal): Promise<void>;
  /** Returns the notes of a model that were written within `NOTE_LIVE_MS`. @param group `groupOf` the model */
  live(group: string, signal: AbortSignal): Promise<readonly HeldNote[]>;
  close(): Promise<void>;
}
