import { readFile } from 'node:fs/promises';
import { reasonOf } from '../errors/index.ts';
import type { PolicyConfig } from '../router/index.ts';

/**
 * What the file of `--router-policy-config` says; undefined without one.
 * @throws KvRouterConfigError that names the field, Error with one line when the file cannot be read
 */
export async function readPolicies(path: string | undefined): Promise<PolicyConfig | undefined> {
  if (path === undefined) return undefined;
  let yaml: string;
  try {
    yaml = await readFile(path, 'utf8');
  } catch (cause) {
    throw new Error(`--router-policy-config: ${reasonOf(cause)}`, { cause });
  }
  const { readPolicyConfig } = await import('../router/queue/index.ts');
  return readPolicyConfig(yaml);
}
