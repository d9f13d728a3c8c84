import type { RouterPoolMetrics } from '../../telemetry/index.ts';
import type { SchedulerObserver } from '../scheduler/router-observer.ts';

/** Counts what the scheduler of one pool decides. */
export function schedulerMetrics(metrics: RouterPoolMetrics): SchedulerObserver {
  return {
    decided(decision, request, facts) {
      metrics.decided({
        promptTokens: request.promptTokens,
        cachedTokens: decision.cachedTokens,
        bestCachedTokens: facts.bestCachedTokens,
        blocksLost: facts.bestDeviceBlocks - decision.deviceBlocks,
        sharedBeyondBlocks: facts.sharedBeyondBlocks,
        matchMs: facts.matchMs,
        schedulingMs: facts.schedulingMs,
      });
    },
    queued: (policyClass, { requests, promptTokens, cachedTokens }) =>
      metrics.pending(policyClass, requests, promptTokens, cachedTokens),
    backpressure: (policyClass, reason) => metrics.backpressure(policyClass, reason),
  };
}
