import { existsSync } from 'node:fs';
import { type Clock, systemClock } from '../../clock/index.ts';
import { hideUrlPassword, type ResolvedConfig, type Settings } from '../../config/index.ts';
import type { Discovery, DiscoveryRecord } from '../../discovery/index.ts';
import { discoveryFolder } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { openDiscovery } from '../../fleet/index.ts';
import { cardRefusal } from '../../frontends/index.ts';
import { LiveModelDirectory, type ModelReadiness } from '../../pipeline/index.ts';
import { refuseDynamo } from '../../planes/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { examineFleet, type FleetRecords } from './examine-fleet.ts';
import type { Finding } from './findings.ts';
import { examineFolderClock } from './folder-clock.ts';
import type { Probes } from './probes.ts';

const READ_MS_MAX = 20_000;
const BUCKETS = ['v1/instances', 'v1/mdc', 'v1/event_channels'] as const;

/** Reads and examines the fleet that a frontend with these settings would serve. */
export async function lookAtFleet(
  { settings }: ResolvedConfig<'frontend'>,
  probes: Probes,
  clock: Clock = systemClock,
): Promise<readonly Finding[]> {
  const place = await placeOf(settings);
  const absent = await absentFolder(settings);
  if (absent !== undefined) return [{ verdict: 'fails', about: `discovery ${place}`, ...absent }];
  const problems: string[] = [];
  const signal = AbortSignal.timeout(READ_MS_MAX);
  try {
    const discovery = await openDiscovery(settings, loggerOf(problems), { isLasting: false });
    try {
      const records = await readRecords(discovery, signal);
      const readiness = await readModels(discovery, settings, clock, signal);
      const fleet = { ...records, readiness, place, problems: [...new Set(problems)] };
      const { routerMode, natsServer: natsServers, modelPath: modelFolder, hfHubOffline: isHubOffline } = settings;
      const needs = { routerMode, natsServers, modelFolder, isHubOffline, cannotBeDialled: refuseDynamo(settings) };
      return [...(await examineClock(settings, clock)), ...(await examineFleet(fleet, needs, probes))];
    } finally {
      await discovery.close();
    }
  } catch (thrown) {
    return [{ verdict: 'fails', about: `discovery ${place}`, says: reasonOf(thrown) }];
  }
}

/** Returns where the store of the settings is, in words. */
async function placeOf(settings: Settings<'frontend'>): Promise<string> {
  switch (settings.discoveryBackend) {
    case 'etcd':
      return `etcd at ${settings.etcdEndpoints.map(hideUrlPassword).join(', ')}`;
    case 'file':
      return `file in ${await discoveryFolder(settings)}`;
    default:
      return settings.discoveryBackend;
  }
}

/** Returns what to do about a folder of `file` discovery that is not there: opening it would create it. */
async function absentFolder(settings: Settings<'frontend'>): Promise<Pick<Finding, 'says' | 'remedy'> | undefined> {
  if (settings.discoveryBackend !== 'file' || existsSync(await discoveryFolder(settings))) return undefined;
  return { says: 'there is no such folder', remedy: 'give the folder of the workers as DYN_FILE_KV' };
}

async function examineClock(settings: Settings<'frontend'>, clock: Clock): Promise<readonly Finding[]> {
  if (settings.discoveryBackend !== 'file') return [];
  return examineFolderClock(await discoveryFolder(settings), clock.wallMs());
}

/** Returns a logger that keeps the problems of discovery, and drops everything else. */
function loggerOf(problems: string[]): Logger {
  const logger: Logger = {
    debug() {},
    info() {},
    error() {},
    warn: (message, fields) => void problems.push(String(fields?.problem ?? message)),
    with: () => logger,
  };
  return logger;
}

async function readRecords(discovery: Discovery, signal: AbortSignal): Promise<FleetRecords> {
  const records: DiscoveryRecord[] = [];
  for (const bucket of BUCKETS) {
    // A watch also reports what it cannot read, and why; a list leaves it out.
    const watch = await discovery.watch(
      { bucket, prefix: '', includesDynamo: true },
      { event: (event) => void (event.kind === 'added' && records.push(event.record)) },
      signal,
    );
    watch.close();
  }
  return {
    endpoints: records.filter((record) => record.type === 'Endpoint'),
    models: records.filter((record) => record.type === 'Model'),
    channels: records.filter((record) => record.type === 'EventChannel'),
  };
}

/** Returns whether a frontend with the settings would serve each model, and why not. */
async function readModels(
  discovery: Discovery,
  settings: Settings<'frontend'>,
  clock: Clock,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ModelReadiness>> {
  const { namespace, namespacePrefix, decodeFallback: decodesAlone } = settings;
  const directory = new LiveModelDirectory({
    discovery,
    namespace,
    namespacePrefix,
    decodesAlone,
    refusalOf: cardRefusal(settings, loggerOf([])),
    servesDynamo: true, // whether their workers can dial the frontend is a finding of its own
    clock,
  });
  try {
    await directory.start(signal);
    const refused = directory
      .refused()
      .map(({ model, reason }) => [model, { isReady: false, reason, namespaces: {} }] as const);
    return new Map([...refused, ...directory.list().map(({ name, readiness }) => [name, readiness] as const)]);
  } finally {
    directory.close();
  }
}
