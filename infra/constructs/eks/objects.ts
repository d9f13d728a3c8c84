/** An object of Kubernetes, as a manifest has it. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** Labels by which budgets and people find the pods of an option. */
export function podLabels(deployment: string, workload: string): Readonly<Record<string, string>> {
  return {
    'app.kubernetes.io/name': 'stator',
    'app.kubernetes.io/instance': deployment,
    'app.kubernetes.io/component': 'worker',
    'stator/pool': workload,
  };
}
