export interface SessionAffinityOptions {
  /** Idle life of a binding. */
  readonly ttlMs: number;
  /** Whether a session stays where it is bound, or only by preference. @default 'hard' */
  readonly mode?: 'hard' | 'soft';
}
