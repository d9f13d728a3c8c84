import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { findLocalModel } from '../../../shared/artifacts/index.ts';
import { systemClock } from '../../../shared/clock/index.ts';
import type { SettingName, Settings } from '../../../shared/config/index.ts';
import type { Engine, EngineInfo } from '../../../shared/engines/index.ts';
import { createSglangEngine, type SglangLaunchSettings } from '../../../shared/engines/sglang/index.ts';
import {
  createMultimodalEngine,
  createVllmEngine,
  type VllmLaunchSettings,
} from '../../../shared/engines/vllm/index.ts';
import { reasonOf } from '../../../shared/errors/index.ts';
import type { Logger } from '../../../shared/telemetry/index.ts';
import { readModelInfo } from '../../../shared/tokens/index.ts';
import type { ModelFacts } from '../../../shared/worker/index.ts';

export type ServerEngineSettings = Settings<'worker'>;

/** What a worker needs beside its settings to drive an engine of its own. */
export interface ServerEngineContext {
  readonly logger: Logger;
  /** The settings that somebody gave: others are the engine's to choose. */
  readonly given: ReadonlySet<SettingName>;
  onDroppedKvEvents(count: number): void;
}

/** vLLM or SGLang as the settings want it: attached by `--engine-url`, else started. */
export async function serverEngineFor(settings: ServerEngineSettings, context: ServerEngineContext): Promise<Engine> {
  const { engineUrl: url, engineApiKey: apiKey, engineStartTimeoutSecs: startSecs } = settings;
  const { logger, onDroppedKvEvents } = context;
  const deps = { clock: systemClock, logger, onDroppedKvEvents };
  const events = url === undefined ? undefined : eventSourceOf(settings);
  const server = {
    url,
    apiKey,
    events,
    // Only the engine's own renderer knows where media stand in a prompt.
    takesText: settings.useVllmTokenizer || settings.enableMultimodal,
    startTimeoutMs: startSecs === undefined ? undefined : startSecs * 1000,
  };
  const launch = url === undefined ? await launchSettings(settings, context) : undefined;
  if (settings.engine === 'sglang') {
    return createSglangEngine({ ...server, launch: launch && sglangSettings(settings, context, launch) }, deps);
  }
  const isPrefill = settings.disaggregationMode === 'prefill';
  const modelName = url === undefined ? undefined : settings.model;
  return createVllmEngine(
    { ...server, modelName, isPrefill, launch: launch && vllmSettings(settings, context, launch) },
    deps,
  );
}

/** `engine` with the media that the settings allow; other engines than vLLM have no settings for them. */
export function withMultimodal(
  engine: Engine,
  settings: ServerEngineSettings,
  { given }: Pick<ServerEngineContext, 'given'>,
): Engine {
  if (settings.engine !== 'vllm') return engine;
  return createMultimodalEngine(engine, {
    accepts: settings.enableMultimodal,
    isEncoder: settings.disaggregationMode === 'encode',
    // The default is what Dynamo writes around prompts of one old model; models of today bring templates of their own.
    promptTemplate: given.has('mmPromptTemplate') ? settings.mmPromptTemplate : undefined,
  });
}

/** The name clients use for a model that an engine serves; undefined where an attached engine's own name is best. */
export function servedNameOf({ servedModelName, modelName, model, modelPath, engineUrl }: ServerEngineSettings) {
  const given = servedModelName ?? modelName;
  if (given !== undefined || engineUrl !== undefined) return given;
  const named = model ?? modelPath;
  return named !== undefined && /^[./]/.test(named) ? named.split('/').findLast((part) => part !== '') : named;
}

/**
 * The files of the model that an engine has loaded, for the card: frontends tokenize for it. Rejects when they are not on
 * this machine.
 */
export async function modelFactsOf(settings: ServerEngineSettings, engine: EngineInfo): Promise<ModelFacts> {
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

type CommonLaunch = Pick<
  VllmLaunchSettings,
  | 'program'
  | 'model'
  | 'servedModelName'
  | 'tensorParallelSize'
  | 'dataParallelSize'
  | 'enablePrefixCaching'
  | 'streamIntervalTokens'
  | 'kvEventsConfig'
  | 'eventsPort'
  | 'publishesKvEvents'
  | 'enableLora'
  | 'maxLoraRank'
  | 'maxLoras'
  | 'fromFile'
  | 'args'
  | 'env'
>;

async function launchSettings(settings: ServerEngineSettings, { given }: ServerEngineContext): Promise<CommonLaunch> {
  const model = settings.model ?? settings.modelPath;
  if (model === undefined) throw new Error(`--engine ${settings.engine} needs --model or --engine-url`);
  const { kvEventsConfig, engineConfigJson, pythonhashseed, disaggregationMode, engineCommand } = settings;
  return {
    program: engineCommand?.split(/\s+/).filter((word) => word !== ''),
    model,
    servedModelName: servedNameOf(settings) ?? model,
    tensorParallelSize: given.has('tensorParallelSize') ? settings.tensorParallelSize : undefined,
    dataParallelSize: given.has('dataParallelSize') ? settings.dataParallelSize : undefined,
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
export async function vllmLaunchSettings(
  settings: ServerEngineSettings,
  context: ServerEngineContext,
): Promise<VllmLaunchSettings> {
  return vllmSettings(settings, context, await launchSettings(settings, context));
}

function vllmSettings(
  settings: ServerEngineSettings,
  { given }: ServerEngineContext,
  common: CommonLaunch,
): VllmLaunchSettings {
  const graceSecs = settings.gracefulShutdownGracePeriodSecs;
  return {
    ...common,
    env: {
      ...common.env,
      ...sideChannelOf(settings),
      ...(given.has('vllmLogStatsIntervalSecs')
        ? { VLLM_LOG_STATS_INTERVAL: `${settings.vllmLogStatsIntervalSecs}` }
        : {}),
    },
    maxNumSeqs: settings.maxNumSeqs,
    maxNumBatchedTokens: settings.maxNumBatchedTokens,
    maxModelLen: settings.maxModelLen,
    blockSizeTokens: given.has('blockSize') ? settings.blockSize : undefined,
    numGpuBlocks: given.has('numGpuBlocksOverride') ? settings.numGpuBlocksOverride : undefined,
    prefixCachingAlgo: settings.prefixCachingAlgo,
    kvTransferConfig: settings.kvTransferConfig,
    enablePromptEmbeds: settings.enablePromptEmbeds,
    shutdownTimeoutSecs: Math.max(1, Math.floor(graceSecs) - 1), // just under the sidecar's own drain
  };
}

function sglangSettings(
  settings: ServerEngineSettings,
  { given }: ServerEngineContext,
  common: CommonLaunch,
): SglangLaunchSettings {
  const mode = settings.disaggregationMode;
  return {
    ...common,
    maxRunningRequests: given.has('maxNumSeqs') ? settings.maxNumSeqs : undefined,
    contextLengthTokens: settings.maxModelLen,
    pageSizeTokens: given.has('blockSize') ? settings.blockSize : undefined,
    disaggregationMode: mode === 'prefill' || mode === 'decode' ? mode : undefined,
  };
}

/** Where an attached engine publishes, if the settings say it. */
function eventSourceOf({ kvEventsConfig: config }: ServerEngineSettings) {
  if (config === undefined || config.enable_kv_cache_events === false) return undefined;
  const textOf = (name: string): string | undefined => {
    const value = config[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  return {
    endpoint: textOf('endpoint') ?? 'tcp://*:5557',
    replayEndpoint: textOf('replay_endpoint'),
    topic: textOf('topic') ?? '',
  };
}

async function readArguments(path: string): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw new Error(`--engine-config-json ${path}: ${reasonOf(error)}`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`--engine-config-json ${path}: it holds no JSON object`);
  }
  return value as Readonly<Record<string, unknown>>;
}

/** The NIXL connector tells its peers where to fetch blocks: an address that other machines reach. */
function sideChannelOf(settings: ServerEngineSettings): Readonly<Record<string, string>> {
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
