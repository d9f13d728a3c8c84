import type { Clock } from '../../clock/index.ts';

/** The part of Lambda's context that handlers read. */
export interface InvocationContext {
  getRemainingTimeInMillis(): number;
}

interface InvocationOptions<T> {
  readonly clock: Clock;
  /** Opens what all invocations of an environment share. After a failure the next invocation opens it again. */
  open(): Promise<T>;
  /** Time in milliseconds before Lambda ends the environment: then the signal of the work aborts. */
  readonly marginMs: number;
}

/** Returns a function that does the work of one invocation with what the first one opened. */
export function invocations<T>({ clock, open, marginMs }: InvocationOptions<T>) {
  let opened: Promise<T> | undefined;
  return async <R>(context: InvocationContext, work: (shared: T, signal: AbortSignal) => Promise<R>): Promise<R> => {
    const over = new AbortController();
    const late = (): void => over.abort(new Error('the time of the function is over'));
    const timer = clock.after(context.getRemainingTimeInMillis() - marginMs, late);
    try {
      opened ??= open();
      const shared = await opened.catch((reason: unknown) => {
        opened = undefined;
        throw reason;
      });
      return await work(shared, over.signal);
    } finally {
      timer.cancel();
    }
  };
}
