/** Result of a lifecycle action. */
export type LifecycleResult = 'CONTINUE' | 'ABANDON';

/**
 * Calls by which an instance takes part in its Auto Scaling group. `unknown` means that Auto Scaling knows no such
 * action for this instance: it is complete already, its time is over, or it has not begun. Other failures reject with
 * one line.
 */
export interface LifecycleActions {
  /** `CompleteLifecycleAction`. */
  complete(hook: string, result: LifecycleResult, signal: AbortSignal): Promise<'done' | 'unknown'>;
  /** `RecordLifecycleActionHeartbeat`. */
  heartbeat(hook: string, signal: AbortSignal): Promise<'done' | 'unknown'>;
  /** `SetInstanceHealth` with `Unhealthy`, without regard to the grace period of the group. */
  setUnhealthy(signal: AbortSignal): Promise<void>;
  close(): void;
}
