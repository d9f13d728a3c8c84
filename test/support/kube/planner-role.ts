import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import type { KubeServer } from './kube-server.ts';

const PAGE = new URL('../../../docs/planner.md', import.meta.url);

/** A rule of a role. */
export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Returns the rules of the role in docs/planner.md. */
export async function documentedRules(): Promise<readonly Rule[]> {
  const [, block = ''] = /```yaml\n(apiVersion: rbac[\s\S]*?)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
  return (parse(block) as { readonly rules: readonly Rule[] }).rules;
}

/** Returns the rules of docs/planner.md for pods that claim their GPUs. */
export async function documentedRulesWithClaims(): Promise<readonly Rule[]> {
  const [, block = ''] = /```yaml\n( *- .*resourceclaims.*\n)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
  return [...(await documentedRules()), ...(parse(block) as readonly Rule[])];
}

/** Each right of the rules by itself. */
export function rightsOf(rules: readonly Rule[]): readonly (Rule & { readonly right: string })[] {
  return rules.flatMap(({ apiGroups, resources, verbs, ...rest }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.map((verb) => ({
          ...rest,
          ...{ apiGroups: [group], resources: [resource], verbs: [verb] },
          right: `${verb} ${resource}`,
        })),
      ),
    ),
  );
}

/** Makes the planner's account in a namespace, with these rights. Returns its token. */
export async function addPlanner(server: KubeServer, namespace: string, rules: readonly Rule[]): Promise<string> {
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const name = 'planner';
  await server.call('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  await server.call('POST', `${rbac}/roles`, { metadata: { name }, rules });
  await server.call('POST', `${rbac}/rolebindings`, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  });
  return await server.tokenIn(namespace, name);
}

/** Replaces the planner's rights in a namespace. */
export async function setRules(server: KubeServer, namespace: string, rules: readonly Rule[]): Promise<void> {
  const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles/planner`;
  await server.call('PATCH', path, { rules }, 'application/merge-patch+json');
}
