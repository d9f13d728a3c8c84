import type { Counter, MetricRegistry } from './registry.ts';
import type { RouterPoolLabels } from './router-labels.ts';

/** Counts the requests that wait for busy workers, and those that the queue turns away. */
export function createRouterQueue(registry: MetricRegistry) {
  const { counter, gauge } = registry.under('dynamo_frontend_router_');
  const labels = ['model', 'worker_type', 'policy_class'];
  const pendingRequests = gauge('queue_pending_requests', 'Requests that wait for a worker.', ...labels);
  const pendingIslTokens = gauge('queue_pending_isl_tokens', 'Their prompt tokens.', ...labels);
  const pendingCachedTokens = gauge(
    'queue_pending_cached_tokens',
    'Those of them that some worker has cached.',
    ...labels,
  );
  const backpressure = counter(
    'queue_backpressure_total',
    'Requests turned away because of the queue.',
    ...labels,
    'reason',
  );
  const admissionReceived = counter(
    'admission_received_total',
    'Requests that asked the router for a worker.',
    ...labels,
  );
  const admissionRejected = counter('admission_rejected_total', 'Those that it turned away.', ...labels, 'reason');
  const pendingSeries = (...values: readonly string[]) => ({
    requests: pendingRequests.with(...values),
    promptTokens: pendingIslTokens.with(...values),
    cachedTokens: pendingCachedTokens.with(...values),
  });
  return {
    pool({ model, workerType }: RouterPoolLabels) {
      const pending = new Map<string, ReturnType<typeof pendingSeries>>(); // bounded by the classes
      let lastClass: string | undefined; // nearly always the same, and once a request
      let received: Counter | undefined;
      return {
        /** A request asked for a worker. */
        received(policyClass: string): void {
          if (policyClass !== lastClass) received = admissionReceived.with(model, workerType, policyClass);
          lastClass = policyClass;
          received?.add();
        },
        /** It got none, because of the queue. */
        backpressure(policyClass: string, reason: string): void {
          backpressure.with(model, workerType, policyClass, reason).add();
          admissionRejected.with(model, workerType, policyClass, reason).add();
        },
        /** Sets what waits in a class now. */
        pending(policyClass: string, requests: number, promptTokens: number, cachedTokens: number): void {
          let series = pending.get(policyClass);
          if (series === undefined) {
            series = pendingSeries(model, workerType, policyClass);
            pending.set(policyClass, series);
          }
          series.requests.set(requests);
          series.promptTokens.set(promptTokens);
          series.cachedTokens.set(cachedTokens);
        },
      };
    },
  };
}
