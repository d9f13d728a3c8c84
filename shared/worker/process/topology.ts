import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import { type TopologyFields, topologyFault, topologyTaint } from '../../scheduler/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/**
 * Longest wait for the files, in milliseconds. Orchestrators write them after they have placed the worker, which may be
 * after its start.
 */
const WAIT_MS = 30_000;
const POLL_MS = 500;

/** Fields of a card that describe the place of its worker; empty unless the settings request them. */
export type TopologyCard = TopologyFields & { readonly taints?: readonly string[] };

/**
 * Reads the place of the worker from one file for each domain, whose name is the domain and whose content is the value.
 * Waits up to 30 s for the file of the transfer domain. A worker that must stay near others, but does not know its
 * place, must not register.
 *
 * @throws ConfigError if the settings name no transfer domain; Error with one line for the operator; the signal's
 * reason if it aborts
 */
export async function topologyCard(
  settings: Settings<'worker'>,
  clock: Clock,
  signal: AbortSignal,
  log: Logger,
): Promise<TopologyCard> {
  const { topologyEnabled, topologyMountPath: folder, kvTransferDomain: domain } = settings;
  if (!topologyEnabled) return {};
  if (domain === undefined)
    throw new ConfigError(['DYN_TOPOLOGY_ENABLED needs DYN_KV_TRANSFER_DOMAIN, the name of a domain']);
  const untilMs = clock.nowMs() + WAIT_MS;
  let domains = await readDomains(folder);
  if (domains[domain] === undefined) log.info('waiting for the file of the transfer domain', { folder, domain });
  while (domains[domain] === undefined) {
    if (clock.nowMs() >= untilMs) {
      throw new Error(
        `DYN_KV_TRANSFER_DOMAIN ${domain}: no such file with a value in ${folder} after ${WAIT_MS / 1000} s`,
      );
    }
    await clock.sleep(POLL_MS, signal);
    domains = await readDomains(folder);
  }
  const weight = settings.kvTransferPreferredWeight;
  const fields: TopologyFields = {
    topology_domains: domains,
    kv_transfer_domain: domain,
    kv_transfer_enforcement: settings.kvTransferEnforcement,
    ...(weight === undefined ? {} : { kv_transfer_preferred_weight: weight }),
  };
  const fault = topologyFault(fields);
  if (fault !== undefined) throw new Error(`topology (DYN_KV_TRANSFER_*, ${folder}): ${fault}`);
  return { ...fields, taints: Object.entries(domains).map(([name, value]) => topologyTaint(name, value)) };
}

/** Reads all domains. Hidden files belong to the mount, and a file without content has not been written yet. */
async function readDomains(folder: string): Promise<Readonly<Record<string, string>>> {
  const entries = await readdir(folder).catch(() => []); // not mounted yet
  const found = await Promise.all(
    entries
      .filter((name) => !name.startsWith('.'))
      .map(async (name) => [name, await readFile(join(folder, name), 'utf8').catch(() => '')] as const), // a folder
  );
  return Object.fromEntries(found.map(([name, text]) => [name, text.trim()]).filter(([, value]) => value !== ''));
}
