/** Router that the series belong to. */
export interface RouterIdentity {
  readonly namespace: string;
  /** Hex: the label `router_id`, and `worker_id` too. */
  readonly routerId: string;
}

/** Labels of the series of one pool. */
export interface RouterPoolLabels {
  readonly model: string;
  readonly workerType: RouterWorkerType;
  readonly phase: RouterPhase;
}

/** Label `worker_type`: aggregated workers decode. */
export type RouterWorkerType = 'prefill' | 'decode';
/** Label `phase`. */
export type RouterPhase = 'prefill' | 'decode' | 'aggregated';

/** Returns the labels that say where a metric of Dynamo's routers comes from. */
export function placeOf({ namespace, routerId }: RouterIdentity) {
  return { dynamo_namespace: namespace, dynamo_component: 'router', worker_id: routerId };
}
