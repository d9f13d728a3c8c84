import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { findLocalModel } from '../../artifacts/index.ts';
import type { Clock } from '../../clock/index.ts';
import { ConfigError, type ResolvedConfig, type SettingName, type Settings } from '../../config/index.ts';
import {
  configuredEvents,
  type Engine,
  type EngineContext,
  type EngineInfo,
  type EngineKind,
  type ModelFacts,
  type ServerLaunchSettings,
} from '../../engines/index.ts';
import { withMediaGuard } from '../../engines/media/index.ts';
import { createSglangEngine, type SglangLaunchSettings } from '../../engines/sglang/index.ts';
import {
  createMultimodalEngine,
  createVllmEngine,
  startSecondaryVllm,
  type VllmLaunchSettings,
} from '../../engines/vllm/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import { createWorkerMetrics, type ProcessLogger } from '../../telemetry/index.ts';
import { readModelInfo } from '../../tokens/index.ts';
import { EndpointHealth, type WorkerAddress } from '../index.ts';
import { openStatusServer } from './open-parts.ts';

/** The settings of a worker: of those that nobody gave, some are the engine's to choose. */
export type WorkerConfig = ResolvedConfig<'worker'>;

/** `--engine vllm`: attached by `--engine-url`, else started. */
export const vllm: EngineKind = {
  roles: ['prefill', 'decode', 'pd', 'encode'],
  displayName: servedNameOf,
  async open(config, context) {
    const { settings } = config;
    const { model, ...server } = await serverOf(config);
    const isPrefill = settings.disaggregationMode === 'prefill';
    const modelName = server.url === undefined ? undefined : settings.model;
    const launch = model && vllmSettings(config, model);
    const engine = createVllmEngine({ ...server, modelName, isPrefill, launch }, depsOf(context));
    return opened(withMultimodal(withMediaGuard(engine, settings, context.clock), config), settings);
  },
};

/** `--engine sglang`: attached by `--engine-url`, else started. */
export const sglang: EngineKind = {
  roles: ['prefill', 'decode', 'pd'],
  displayName: servedNameOf,
  async open(config, context) {
    const { settings } = config;
    const { model, ...server } = await serverOf(config);
    const engine = createSglangEngine({ ...server, launch: model && sglangSettings(config, model) }, depsOf(context));
    return opened(withMediaGuard(engine, settings, context.clock), settings);
  },
};

function depsOf({ clock, logger, onDroppedKvEvents }: EngineContext) {
  return { clock, logger, onDroppedKvEvents };
}

function opened(engine: Engine, settings: Settings<'worker'>) {
  return { engine, model: (info: EngineInfo) => modelFactsOf(settings, info) };
}

/** What both servers are told; `model` = how to start one, undefined for one that is attached. */
async function serverOf(config: WorkerConfig) {
  const { settings } = config;
  const { engineUrl: url, engineApiKey: apiKey, engineStartTimeoutSecs: startSecs } = settings;
  return {
    url,
    apiKey,
    events: url === undefined ? undefined : eventSourceOf(settings),
    // Only the engine's own renderer knows where media stand in a prompt.
    takesText: settings.useVllmTokenizer || settings.enableMultimodal,
    startTimeoutMs: startSecs === undefined ? undefined : startSecs * 1000,
    model: url === undefined ? await launchSettings(config) : undefined,
  };
}

/** `engine` with the media that the settings allow. */
function withMultimodal(engine: Engine, config: WorkerConfig): Engine {
  const { settings } = config;
  return createMultimodalEngine(engine, {
    accepts: settings.enableMultimodal,
    isEncoder: settings.disaggregationMode === 'encode',
    // The default is what Dynamo writes around prompts of one old model; models of today bring templates of their own.
    promptTemplate: givenValue(config, 'mmPromptTemplate'),
  });
}

/** The name clients use for a model that an engine serves; undefined where an attached engine's own name is best. */
function servedNameOf({ servedModelName, modelName, model, modelPath, engineUrl }: Settings<'worker'>) {
  const given = servedModelName ?? modelName;
  if (given !== undefined || engineUrl !== undefined) return given;
  const named = model ?? modelPath;
  return named !== undefined && /^[./]/.test(named) ? named.split('/').findLast((part) => part !== '') : named;
}

/**
 * The files of the model that an engine has loaded, for the card: frontends tokenize for it. Rejects when they are not on
 * this machine.
 */
async function modelFactsOf(settings: Settings<'worker'>, engine: EngineInfo): Promise<ModelFacts> {
  if (engine.modelInput === 'Text') return {};
  const names = [settings.modelPath, settings.model, engine.modelPath].filter((name) => name !== undefined);
  for (const name of names) {
    const folder = await findLocalModel(name);
    if (folder === undefined) continue;
    const info = await readModelInfo(folder);
    return { files: info.files, contextLength: info.contextLength, sourcePath: name };
  }
  const looked = names.length === 0 ? '' : ` (looked for ${names.join(', ')})`;
  throw new Error(`the model's files are not on this machine${looked}: give their folder with --model-path`);
}

/** The value that somebody gave; undefined where the engine chooses. */
function givenValue<K extends SettingName & keyof Settings<'worker'>>(config: WorkerConfig, setting: K) {
  return config.given.has(setting) ? config.settings[setting] : undefined;
}

async function launchSettings(config: WorkerConfig): Promise<ServerLaunchSettings> {
  const { settings } = config;
  const model = settings.model ?? settings.modelPath;
  if (model === undefined) throw new Error(`--engine ${settings.engine} needs --model or --engine-url`);
  const { kvEventsConfig, engineConfigJson, pythonhashseed, disaggregationMode, engineCommand } = settings;
  return {
    program: engineCommand?.split(/\s+/).filter((word) => word !== ''),
    model,
    servedModelName: servedNameOf(settings) ?? model,
    tensorParallelSize: givenValue(config, 'tensorParallelSize'),
    dataParallelSize: givenValue(config, 'dataParallelSize'),
    enablePrefixCaching: settings.enablePrefixCaching,
    streamIntervalTokens: settings.streamInterval,
    kvEventsConfig,
    eventsPort: settings.vllmKvEventPort,
    publishesKvEvents: disaggregationMode !== 'decode' && kvEventsConfig?.enable_kv_cache_events !== false,
    enableLora: settings.enableLora ?? settings.loraEnabled,
    maxLoraRank: settings.maxLoraRank,
    maxLoras: settings.maxLoras,
    fromFile: engineConfigJson === undefined ? undefined : await readArguments(engineConfigJson),
    args: settings.engineArguments,
    env: pythonhashseed === undefined ? {} : { PYTHONHASHSEED: `${pythonhashseed}` },
  };
}

/** What vLLM is started with. */
export async function vllmLaunchSettings(config: WorkerConfig): Promise<VllmLaunchSettings> {
  return vllmSettings(config, await launchSettings(config));
}

function vllmSettings(config: WorkerConfig, common: ServerLaunchSettings): VllmLaunchSettings {
  const { settings } = config;
  const statsSecs = givenValue(config, 'vllmLogStatsIntervalSecs');
  const graceSecs = settings.gracefulShutdownGracePeriodSecs;
  return {
    ...common,
    env: {
      ...common.env,
      ...sideChannelOf(settings),
      ...(statsSecs === undefined ? {} : { VLLM_LOG_STATS_INTERVAL: `${statsSecs}` }),
    },
    maxNumSeqs: settings.maxNumSeqs,
    maxNumBatchedTokens: settings.maxNumBatchedTokens,
    maxModelLen: settings.maxModelLen,
    blockSizeTokens: givenValue(config, 'blockSize'),
    numGpuBlocks: givenValue(config, 'numGpuBlocksOverride'),
    prefixCachingAlgo: settings.prefixCachingAlgo,
    kvTransferConfig: settings.kvTransferConfig,
    enablePromptEmbeds: settings.enablePromptEmbeds,
    shutdownTimeoutSecs: Math.max(1, Math.floor(graceSecs) - 1), // just under the sidecar's own drain
  };
}

function sglangSettings(config: WorkerConfig, common: ServerLaunchSettings): SglangLaunchSettings {
  const { settings } = config;
  const mode = settings.disaggregationMode;
  return {
    ...common,
    maxRunningRequests: givenValue(config, 'maxNumSeqs'),
    contextLengthTokens: settings.maxModelLen,
    pageSizeTokens: givenValue(config, 'blockSize'),
    disaggregationMode: mode === 'prefill' || mode === 'decode' ? mode : undefined,
  };
}

/** Where an attached engine publishes, if the settings say it. */
function eventSourceOf({ kvEventsConfig: config }: Settings<'worker'>) {
  if (config === undefined || config.enable_kv_cache_events === false) return undefined;
  return configuredEvents(config);
}

async function readArguments(path: string): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw new Error(`--engine-config-json ${path}: ${reasonOf(error)}`, { cause: error });
  }
  if (!isRecord(value)) throw new Error(`--engine-config-json ${path}: it holds no JSON object`);
  return value;
}

/** The NIXL connector tells its peers where to fetch blocks: an address that other machines reach. */
function sideChannelOf(settings: Settings<'worker'>): Readonly<Record<string, string>> {
  const { vllmNixlSideChannelHost: host, vllmNixlSideChannelPort: port, kvTransferConfig } = settings;
  if (!JSON.stringify(kvTransferConfig ?? {}).includes('NixlConnector')) return {};
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family, address }) => !internal && family === 'IPv4' && !address.startsWith('169.254.'));
  const address = host ?? own?.address;
  if (address === undefined) throw new Error('no address for the NIXL connector: set VLLM_NIXL_SIDE_CHANNEL_HOST');
  return {
    VLLM_NIXL_SIDE_CHANNEL_HOST: address,
    ...(port === undefined ? {} : { VLLM_NIXL_SIDE_CHANNEL_PORT: `${port}` }),
  };
}

/** What its status server shows in place of endpoints. */
const ENGINE = 'engine';

/**
 * A secondary node of an engine that spans machines (`--headless`): the engine runs, and this process is known to nobody. Ends
 * with its engine.
 *
 * @throws ConfigError for settings that no secondary node can have
 */
export async function startSecondaryNode(
  config: WorkerConfig,
  address: WorkerAddress,
  clock: Clock,
  logger: ProcessLogger,
) {
  const { settings } = config;
  if (settings.engine !== 'vllm')
    throw new ConfigError([`--headless needs --engine vllm: ${settings.engine} has no such nodes`]);
  if (settings.engineUrl !== undefined) throw new ConfigError(['--headless starts an engine: leave --engine-url out']);
  const health = new EndpointHealth(clock, [ENGINE]);
  const metrics = createWorkerMetrics({ clock, ...address, model: '' });
  const status = await openStatusServer(settings, logger, { health, metrics });
  const log = logger.for('engine');
  const launch = await vllmLaunchSettings(config);
  const node = await startSecondaryVllm(launch, { clock, logger: log });
  health.set(ENGINE, 'ready');
  const engineExit = node.exit.then((reason) => {
    health.set(ENGINE, 'notready');
    log.error('the engine has ended', { reason: reasonOf(reason) });
    return reason;
  });
  const drain = async (): Promise<void> => {
    health.set(ENGINE, 'notready');
    await node.stop();
    await status?.close();
  };
  return { workers: [], engineExit, drain };
}
