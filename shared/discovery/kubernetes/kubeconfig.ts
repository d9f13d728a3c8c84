import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { DiscoveryError } from '../options.ts';
import { type KubeAccess, type KubeCredentials, readNamed, TokenFile } from './access.ts';
import { ExecPlugin } from './exec-plugin.ts';

/** The files of a kubeconfig as one: of entries with one name, the first counts. */
interface Merged {
  readonly paths: readonly string[];
  readonly currentContext: string | undefined;
  readonly contexts: ReadonlyMap<string, Entry>;
  readonly clusters: ReadonlyMap<string, Entry>;
  readonly users: ReadonlyMap<string, Entry>;
}

/** An entry, with the folder that its relative paths start from. */
interface Entry {
  readonly value: UnknownRecord;
  readonly folder: string;
}

/** Bytes of a kubeconfig; real ones have some kilobytes. */
const FILE_BYTES_MAX = 4 << 20;
/** Ways of authentication that clients no longer have, or that need a browser. */
const REFUSED_USERS = ['auth-provider', 'as', 'as-groups', 'as-uid'];

/**
 * Returns the access of the current context. Of several files, missing ones are left out.
 * @throws DiscoveryError `misconfigured` that names the file, and the field that cannot be followed
 */
export async function kubeconfigAccess(paths: readonly string[], clock: Clock): Promise<KubeAccess> {
  const merged = merge(await Promise.all(paths.map(readConfig)), paths);
  const context = named(merged, 'contexts', merged.currentContext, 'current-context');
  const { cluster: clusterName, user: userName, namespace } = context.value;
  const cluster = named(merged, 'clusters', clusterName, 'cluster of the context');
  const { server, 'tls-server-name': serverName, 'insecure-skip-tls-verify': isUnchecked } = cluster.value;
  if (typeof server !== 'string' || !/^https?:/.test(server) || !URL.canParse(server)) {
    throw problem(merged, `server of cluster ${String(clusterName)} is not an http or https URL`);
  }
  if (cluster.value['proxy-url'] !== undefined) throw problem(merged, 'proxy-url of a cluster is not supported');
  const ca = await bytesOf(cluster, 'certificate-authority');
  const user = userName === undefined || userName === '' ? undefined : named(merged, 'users', userName, 'user');
  return {
    server: new URL(server),
    ca,
    serverName: textOf(serverName),
    isUnchecked: isUnchecked === true,
    namespace: textOf(namespace),
    credentials: user === undefined ? async () => ({}) : await credentialsOf(user, merged, clock, server),
  };
}

async function credentialsOf(
  user: Entry,
  merged: Merged,
  clock: Clock,
  server: string,
): Promise<KubeAccess['credentials']> {
  const { token, tokenFile, username, password, exec } = user.value;
  const refused = REFUSED_USERS.find((name) => user.value[name] !== undefined);
  if (refused !== undefined) throw problem(merged, `${refused} of a user is not supported: use a token or exec`);
  const [cert, key] = [await bytesOf(user, 'client-certificate'), await bytesOf(user, 'client-key')];
  if (asRecord(exec) !== undefined) {
    const plugin = new ExecPlugin(asRecord(exec) ?? {}, { clock, server, folder: user.folder });
    return async (isRefused, signal) => ({ cert, key, ...(await plugin.credentials(isRefused, signal)) });
  }
  if (typeof tokenFile === 'string') {
    const file = new TokenFile(resolve(user.folder, tokenFile), clock);
    return async (isRefused) => ({ cert, key, token: await file.read(isRefused) });
  }
  const basic = typeof username === 'string' ? `${username}:${String(password ?? '')}` : undefined;
  const fixed: KubeCredentials = { cert, key, token: textOf(token), basic };
  return async () => fixed;
}

async function readConfig(
  path: string,
): Promise<{ readonly path: string; readonly config: UnknownRecord } | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new DiscoveryError('misconfigured', `cannot read the kubeconfig ${path}: ${reasonOf(thrown)}`, thrown);
  }
  if (text.length > FILE_BYTES_MAX) {
    throw new DiscoveryError('misconfigured', `the kubeconfig ${path} has more than ${FILE_BYTES_MAX} characters`);
  }
  try {
    return { path, config: asRecord(parse(text)) ?? {} };
  } catch (thrown) {
    throw new DiscoveryError('misconfigured', `the kubeconfig ${path} is not YAML: ${reasonOf(thrown)}`, thrown);
  }
}

function merge(files: readonly Awaited<ReturnType<typeof readConfig>>[], paths: readonly string[]): Merged {
  const [contexts, clusters, users] = [new Map<string, Entry>(), new Map<string, Entry>(), new Map<string, Entry>()];
  let currentContext: string | undefined;
  for (const file of files) {
    if (file === undefined) continue;
    const { path, config } = file;
    currentContext ??= textOf(config['current-context']);
    const folder = dirname(resolve(path));
    addEntries(contexts, config.contexts, 'context', folder);
    addEntries(clusters, config.clusters, 'cluster', folder);
    addEntries(users, config.users, 'user', folder);
  }
  if (files.every((file) => file === undefined)) {
    const hint = 'set KUBECONFIG, or run in a pod of the cluster';
    throw new DiscoveryError('misconfigured', `there is no kubeconfig at ${paths.join(', ')}: ${hint}`);
  }
  return { paths, currentContext, contexts, clusters, users };
}

function addEntries(entries: Map<string, Entry>, list: unknown, field: string, folder: string): void {
  if (!Array.isArray(list)) return;
  for (const item of list) {
    const { name, [field]: value } = asRecord(item) ?? {};
    if (typeof name === 'string' && !entries.has(name)) entries.set(name, { value: asRecord(value) ?? {}, folder });
  }
}

function named(merged: Merged, list: 'contexts' | 'clusters' | 'users', name: unknown, field: string): Entry {
  if (typeof name !== 'string') throw problem(merged, `has no ${field}`);
  const entry = merged[list].get(name);
  if (entry === undefined) throw problem(merged, `${field} ${name} is not among its ${list}`);
  return entry;
}

/** Returns a field that is given as a file, or as base64 in the field with `-data`. */
async function bytesOf({ value, folder }: Entry, field: string): Promise<Buffer | undefined> {
  const data = value[`${field}-data`];
  if (typeof data === 'string') return Buffer.from(data, 'base64');
  const path = value[field];
  return typeof path === 'string' ? readNamed(resolve(folder, path), `${field} of the kubeconfig`) : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function problem({ paths }: Merged, what: string): DiscoveryError {
  return new DiscoveryError('misconfigured', `the kubeconfig ${paths.join(', ')}: ${what}`);
}
