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
  readonly readinessProbe: { readonly httpGet?: { readonly path: string; readonly port: string } };
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

/** Template of pods. */
interface PodTemplate {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly serviceAccountName?: string;
    readonly terminationGracePeriodSeconds: number;
    readonly securityContext: Readonly<Record<string, unknown>>;
    readonly containers: readonly ManifestContainer[];
  };
}

/** An object of a manifest. */
export interface Manifest {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly rules?: readonly ManifestRule[];
  /** Files of a ConfigMap. */
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas?: number;
    readonly selector?: Readonly<Record<string, string>>;
    readonly template?: PodTemplate;
    /** Pods of a group of a LeaderWorkerSet, of which the first one has a template of its own. */
    readonly leaderWorkerTemplate?: {
      readonly size: number;
      readonly leaderTemplate: PodTemplate;
      readonly workerTemplate: PodTemplate;
    };
  };
}

/** Reads the objects of a manifest. */
export function readManifests(text: string): readonly Manifest[] {
  const objects = parseAllDocuments(text).map((document) => document.toJS() as Manifest | null);
  return objects.filter((object) => object !== null);
}

/**
 * Returns the containers of the objects with pods, each with the spec of its pod. A group has the containers of its
 * first pod, then those of the others.
 */
export function workloadsOf(manifests: readonly Manifest[]) {
  return manifests.flatMap(({ metadata: { name }, spec }) => {
    const group = spec?.leaderWorkerTemplate;
    const templates = group === undefined ? [spec?.template] : [group.leaderTemplate, group.workerTemplate];
    return templates.flatMap((template, at) => {
      if (template === undefined) return [];
      const common = { name, replicas: spec.replicas, groupSize: group?.size, isFirst: at === 0 };
      const { labels } = template.metadata;
      return template.spec.containers.map((container) => ({ ...common, labels, pod: template.spec, container }));
    });
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
