import type { LifecycleActions, LifecycleResult } from '../../shared/host/lifecycle/types.ts';

/** An Auto Scaling group in memory, which holds its instance in the hooks named in `open`. */
export class MemoryLifecycle implements LifecycleActions {
  /** Hooks whose action waits. */
  readonly open: Set<string>;
  readonly completed: { readonly hook: string; readonly result: LifecycleResult }[] = [];
  heartbeats = 0;
  isHealthy = true;

  constructor(...open: readonly string[]) {
    this.open = new Set(open);
  }

  async complete(hook: string, result: LifecycleResult, signal: AbortSignal): Promise<'done' | 'unknown'> {
    signal.throwIfAborted();
    if (!this.open.delete(hook)) return 'unknown';
    this.completed.push({ hook, result });
    return 'done';
  }

  async heartbeat(hook: string, signal: AbortSignal): Promise<'done' | 'unknown'> {
    signal.throwIfAborted();
    if (!this.open.has(hook)) return 'unknown';
    this.heartbeats++;
    return 'done';
  }

  async setUnhealthy(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.isHealthy = false;
  }

  close(): void {}
}
