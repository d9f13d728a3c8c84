/** Counts and times of a runtime so far. */
export interface LambdaStats {
  invocations: number;
  coldStarts: number;
  /** Time from the start of each process to its first call for work. */
  readonly initMs: number[];
  /** CPU of each process, all its threads, up to that call, in milliseconds; empty if the system does not report it. */
  readonly initCpuMs: number[];
  timeouts: number;
  /** Processes that ended by themselves. */
  crashes: number;
  /** Answers that ended with error trailers, or without a head. */
  streamErrors: number;
  /** Callers that left before their answer was complete. */
  clientsGone: number;
  bytesAfterClientGone: number;
  /** Requests refused because all environments were busy. */
  throttled: number;
}

export function newLambdaStats(): LambdaStats {
  return {
    invocations: 0,
    coldStarts: 0,
    initMs: [],
    initCpuMs: [],
    timeouts: 0,
    crashes: 0,
    streamErrors: 0,
    clientsGone: 0,
    bytesAfterClientGone: 0,
    throttled: 0,
  };
}
