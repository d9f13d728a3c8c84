import type { KubeObject } from './objects.ts';

/**
 * Returns the group of Kubernetes to which the access entry of a planner's role belongs. Each deployment has its own:
 * in a cluster of several deployments, no planner scales the workloads of another one.
 */
export function plannerGroupOf(deployment: string): string {
  return `stator-planner-${deployment}`;
}

interface AccessProps {
  readonly name: string;
  /** Group of the planner. */
  readonly group: string;
  readonly namespace: string;
  /** Names of Deployments that the planner scales. */
  readonly deployments: readonly string[];
  /** Names of LeaderWorkerSets that it scales. */
  readonly groups: readonly string[];
  /** Whether pods claim their GPUs, which the planner counts. */
  readonly hasClaims: boolean;
}

/** Returns the rights of a planner over the workloads of a fleet: exactly those that its connector uses. */
export function plannerAccess(props: AccessProps): readonly KubeObject[] {
  const { name, group, namespace, deployments, groups, hasClaims } = props;
  const apiGroup = 'rbac.authorization.k8s.io';
  const metadata = { name, namespace };
  const scaling = (api: string, resource: string, names: readonly string[]) =>
    names.length === 0
      ? []
      : [{ apiGroups: [api], resources: [`${resource}/scale`], resourceNames: [...names], verbs: ['get', 'update'] }];
  return [
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'Role',
      metadata,
      rules: [
        ...scaling('apps', 'deployments', deployments),
        ...scaling('leaderworkerset.x-k8s.io', 'leaderworkersets', groups),
        // A Deployment ends the pods first that the planner has marked. A set of groups ends its last group.
        { apiGroups: [''], resources: ['pods'], verbs: deployments.length === 0 ? ['list'] : ['list', 'patch'] },
        ...(hasClaims ? [{ apiGroups: ['resource.k8s.io'], resources: ['resourceclaims'], verbs: ['list'] }] : []),
      ],
    },
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup, kind: 'Role', name },
      subjects: [{ kind: 'Group', name: group, apiGroup }],
    },
  ];
}
