import { join } from 'node:path';
import { bucketPlace } from '../artifacts/index.ts';
import { type Lifetime, PeriodicTask } from '../concurrency/index.ts';
import type { Settings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { renderGpus } from './gpu/embedded-gpus.ts';
import { GpuWatch } from './gpu/gpu-watch.ts';
import type { GpuFigures } from './gpu/nvidia-smi.ts';
import type { HostDeps, HostParts } from './host-deps.ts';
import type { Rules } from './law/types.ts';
import type { PreparationPart } from './preparation.ts';
import { DockerRunner } from './runners/docker-runner.ts';
import { ProcessRunner } from './runners/process-runner.ts';
import type { ReplicaRunner } from './runners/types.ts';
import { CompileCache } from './weights/compile-cache.ts';
import { syncWeights } from './weights/sync-weights.ts';

const EMF_PERIOD_MS = 60_000;
const KERNEL_LOG = '/dev/kmsg';
/** Interval of log lines on the progress of the weights. */
const PROGRESS_LOG_MS = 10_000;

/** Returns the rules of the law, from the settings. */
export function rulesOf(settings: Settings<'host'>): Rules {
  const { hostLaunchHook, hostTerminateHook, hostEndsAt } = settings;
  return {
    hasGroup: settings.hostGroup !== undefined,
    hasHook: { launch: hostLaunchHook !== undefined, terminate: hostTerminateHook !== undefined },
    startMs: settings.hostStartSecs * 1000,
    drainMs: settings.hostDrainSecs * 1000,
    heartbeatMs: settings.hostHeartbeatSecs * 1000,
    blockEndsAtMs: hostEndsAt === undefined ? undefined : Date.parse(hostEndsAt),
  };
}

/** Opens the runner that the settings name. */
export function openRunner({ clock, program }: HostDeps, { settings, folder, places }: HostParts): ReplicaRunner {
  const { hostRunner, hostWorkerImage: image } = settings;
  if (hostRunner === 'process' || image === undefined) {
    return new ProcessRunner({ folder: join(folder, 'workers'), clock, program });
  }
  const volumes = [
    ...(settings.hostWeightsMode === 'disk' && places.weights !== undefined
      ? [{ path: places.weights, isReadOnly: true }]
      : []),
    ...(places.compileCache === undefined ? [] : [{ path: places.compileCache, isReadOnly: false }]),
  ];
  return new DockerRunner({ image, clock, drainSecs: settings.hostDrainSecs, volumes });
}

/** Opens the cache of compiled code beside the weights; undefined without weights. */
export function openCompileCache(
  { clock }: HostDeps,
  { settings, places, identity }: HostParts,
): CompileCache | undefined {
  const { hostWeightsUri: weightsUri, hostWorkerImage: image, hostWorkerArguments: args } = settings;
  if (weightsUri === undefined || places.compileCache === undefined) return undefined;
  const key = [image ?? '', args ?? [], identity.instanceType, settings.hostGpusPerReplica];
  return new CompileCache({ weightsUri, key, place: bucketPlace(settings), clock, folder: places.compileCache });
}

/** Stores what the engines have compiled, in the background. Without the right to do so, the machine serves as well. */
export function storeCompileCache(cache: CompileCache | undefined, signal: AbortSignal, logger: Logger): void {
  cache?.store(signal).then(
    (outcome) => logger.info('compile cache', { outcome }),
    (thrown: unknown) => logger.warn('the compile cache cannot be stored', { reason: reasonOf(thrown) }),
  );
}

interface PreparationDeps {
  readonly runner: ReplicaRunner;
  readonly cache: CompileCache | undefined;
  /** Called whenever something of the start has moved. */
  moved(): void;
}

/** Returns what must be fetched before workers can start, in order. */
export function preparationParts(
  { settings, places, metrics }: HostParts,
  { clock, logger }: HostDeps,
  { runner, cache, moved }: PreparationDeps,
): readonly PreparationPart[] {
  const log = logger.for('host');
  const { hostWeightsUri: uri, hostWeightsMode: mode, hostWeightsBytes: expected } = settings;
  const parts: PreparationPart[] = [
    { phase: 'image', isOptional: false, run: (signal) => runner.prepare(moved, signal) },
  ];
  const { weights: folder } = places;
  if (uri !== undefined && mode === 'disk' && folder !== undefined) {
    const run = async (signal: AbortSignal): Promise<void> => {
      let bytes = 0;
      const timer = clock.every(PROGRESS_LOG_MS, () => log.info('fetching weights', { bytes, expected }));
      const onBytes = (count: number): void => {
        bytes += count;
        metrics.weightsFetched(count);
        moved();
      };
      const onRetry = (reason: string): void => log.warn('weights: trying again', { reason });
      try {
        const place = bucketPlace(settings);
        const synced = await syncWeights({ uri, place, folder, clock, onBytes, onRetry }, signal);
        log.info('weights are here', { uri, folder, ...synced, fetched: bytes });
      } finally {
        timer.cancel();
      }
    };
    parts.push({ phase: 'weights', isOptional: false, run });
  }
  if (cache !== undefined) {
    const run = async (signal: AbortSignal): Promise<void> => {
      log.info('compile cache', { outcome: await cache.fetch(signal) });
      moved();
    };
    parts.push({ phase: 'weights', isOptional: true, run });
  }
  return parts;
}

/** Watches the GPUs, and publishes their figures; undefined on a machine without any. */
export function openGpuWatch(
  { clock, random, logger, config, writeLine }: HostDeps,
  { settings, identity, metrics }: HostParts,
  lifetime: Lifetime,
): GpuWatch | undefined {
  if (settings.hostGpus === 0 && settings.hostKernelLog === undefined) return undefined;
  let figures: readonly GpuFigures[] = [];
  let xids = 0;
  const watch = lifetime.use(
    new GpuWatch({
      logger: logger.for('gpu'),
      kernelLog: settings.hostKernelLog ?? KERNEL_LOG,
      onFigures: (read) => {
        figures = read;
        metrics.gpus(read);
      },
      onXid: ({ code }) => {
        xids++;
        metrics.xid(code);
      },
    }),
  );
  const task = lifetime.use(
    new PeriodicTask({
      clock,
      random,
      periodMs: settings.hostPollSecs * 1000,
      run: (signal) => watch.look(signal),
      onProblem: (problem) => logger.for('gpu').error('the GPUs cannot be watched', { reason: reasonOf(problem) }),
    }),
    (opened) => opened.stop(),
  );
  task.start();
  if (settings.emf) {
    const service = config.given.has('emfService') ? settings.emfService : (settings.hostGroup ?? settings.emfService);
    const publish = (): void => {
      writeLine(renderGpus(figures, { service, instanceId: identity.instanceId, timeMs: clock.wallMs(), xids }));
      xids = 0;
    };
    lifetime.use(clock.every(EMF_PERIOD_MS, publish), (timer) => timer.cancel());
  }
  return watch;
}
