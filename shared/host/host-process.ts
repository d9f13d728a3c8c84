import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Lifetime } from '../concurrency/index.ts';
import { ConfigError, type Settings, stateFolder } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { openPlannerOutbox } from '../fleet/index.ts';
import { composeAgent } from './compose-agent.ts';
import { queryGpus } from './gpu/nvidia-smi.ts';
import type { HostDeps } from './host-deps.ts';
import { createHostMetrics } from './host-metrics.ts';
import { InstanceMetadata } from './imds.ts';
import { readIdentity, readNotices } from './instance-facts.ts';
import { openAutoScaling } from './lifecycle/auto-scaling.ts';
import { openGpuWatch } from './open-parts.ts';
import { PlannerReports } from './planner-reports.ts';
import { startStatusPage } from './status-page.ts';
import { type Places, readServed, replicaCount, requireModel, workerArguments } from './worker-command.ts';

type HostSettings = Settings<'host'>;

const GPU_QUERY_MS_MAX = 30_000;
const OUTBOX_MS_MAX = 2000;

/** Runs the agent of one machine until it must end. Resolves with the exit code of the process. */
export function runHost(deps: HostDeps): Promise<number> {
  return Lifetime.run((lifetime) => openHost(deps, lifetime));
}

async function openHost(deps: HostDeps, lifetime: Lifetime): Promise<number> {
  const { clock, random, logger, env, config } = deps;
  const ended = new AbortController();
  lifetime.defer(() => ended.abort(new Error('the agent has ended')));
  const settings = await withGpus(config.settings, ended.signal);
  const folder = settings.hostDir ?? join(stateFolder(env), 'host');
  const places = placesOf(settings, folder);
  const served = await readServed(settings, workerArguments(settings, places), env);
  requireModel(settings, served);
  const metadata = new InstanceMetadata({ url: settings.imdsUrl, clock });
  const identity = await readIdentity(metadata, settings.hostMarket, ended.signal);
  const log = logger.for('host');
  log.info('instance', { ...identity, gpus: settings.hostGpus, workers: replicaCount(settings) });
  const metrics = createHostMetrics(clock);
  const outbox = await lifetime.use(
    openPlannerOutbox(settings, { clock, logger: logger.for('planner'), registry: metrics.registry }),
    (opened) => opened.close(OUTBOX_MS_MAX),
  );
  const { model } = served;
  const reports =
    outbox === undefined || model === undefined
      ? undefined
      : new PlannerReports(outbox, { identity, served: { ...served, model } }, { clock, random });
  const { hostGroup: group } = settings;
  const lifecycle = await lifetime.use(
    group === undefined
      ? undefined
      : openAutoScaling({ group, instanceId: identity.instanceId, region: settings.awsRegion, clock }),
  );
  const parts = { settings, folder, places, served, identity, metrics, signal: ended.signal };
  const gpus = openGpuWatch(deps, parts, lifetime);
  const agent = composeAgent(deps, parts, {
    lifecycle,
    reports,
    gpuFault: () => gpus?.fault,
    readNotices: (signal) => readNotices(metadata, signal),
  });
  const { hostAddress: host, hostPort: port } = settings;
  const health = () => agent.health();
  const page = await lifetime.use(startStatusPage({ host, port, logger: log, registry: metrics.registry, health }));
  log.info('status page is up', { port: page.port });
  return agent.run(deps.stopped);
}

/**
 * Returns the settings with the number of GPUs. @throws ConfigError if neither the settings nor nvidia-smi say how many
 * there are
 */
async function withGpus(settings: HostSettings, signal: AbortSignal): Promise<HostSettings> {
  if (settings.hostGpus !== undefined) return settings;
  try {
    const { length } = await queryGpus(GPU_QUERY_MS_MAX, signal);
    if (length < settings.hostGpusPerReplica) {
      throw new Error(`${length} GPUs are fewer than --host-gpus-per-replica ${settings.hostGpusPerReplica}`);
    }
    return { ...settings, hostGpus: length };
  } catch (thrown) {
    throw new ConfigError([`--host-gpus is not set, and nvidia-smi does not help: ${reasonOf(thrown)}`]);
  }
}

function placesOf({ hostWeightsUri: uri, hostWeightsMode: mode }: HostSettings, folder: string): Places {
  if (uri === undefined) return { weights: undefined, compileCache: undefined };
  const sum = createHash('sha256').update(uri).digest('hex').slice(0, 32);
  return {
    weights: mode === 'disk' ? join(folder, 'weights', sum) : uri,
    compileCache: join(folder, 'compile', sum),
  };
}
