import { parseAllDocuments } from 'yaml';

/** A container of a pod, as far as tests look at it. */
export interface ManifestContainer {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: {
      readonly fieldRef?: { readonly fieldPath: string };
      readonly secretKeyRef?: { readonly key: string; readonly optional?: boolean };
    };
  }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe: {
    readonly httpGet?: { readonly path: string; readonly port: string };
    readonly exec?: { readonly command: readonly string[] };
  };
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly securityContext: Readonly<Record<string, unknown>>;
}

/** A rule of a role. */
interface ManifestRule {
  readonly resources: readonly string[];
  /** Names of the only objects that it is about. */
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** An object of a manifest. */
export interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly rules?: readonly ManifestRule[];
  /** Files of a ConfigMap. */
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas?: number;
    readonly selector?: Readonly<Record<string, string>>;
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly serviceAccountName?: string;
        readonly terminationGracePeriodSeconds: number;
        readonly securityContext: Readonly<Record<string, unknown>>;
        readonly containers: readonly [ManifestContainer];
      };
    };
  };
}

/** Reads the objects of a manifest. */
export function readManifests(text: string): readonly Manifest[] {
  const objects = parseAllDocuments(text).map((document) => document.toJS() as Manifest | null);
  return objects.filter((object) => object !== null);
}

/** Returns the objects with pods, each with the spec of its pods and their only container. */
export function workloadsOf(manifests: readonly Manifest[]) {
  return manifests.flatMap(({ metadata: { name }, spec }) => {
    const template = spec?.template;
    if (template === undefined) return [];
    const [container] = template.spec.containers;
    const { labels } = template.metadata;
    return [{ name, replicas: spec.replicas, labels, pod: template.spec, container }];
  });
}

/**
 * Returns the environment of a container.
 * @param facts fields of the pod by their path, and keys of the Secret
 */
export function environmentOf(container: ManifestContainer, facts: Readonly<Record<string, string>>) {
  const entries = container.env.flatMap(({ name, value, valueFrom }) => {
    const { fieldRef, secretKeyRef } = valueFrom ?? {};
    const text = value ?? facts[fieldRef?.fieldPath ?? secretKeyRef?.key ?? ''];
    if (text === undefined && secretKeyRef?.optional !== true) throw new Error(`nothing fills ${name}`);
    return text === undefined ? [] : [[name, text] as const];
  });
  return Object.fromEntries(entries);
}
