import { readFile } from 'node:fs/promises';
import { builtinModelPath, builtinText, describeChatTemplate, hubModelOf, openModel } from '../../artifacts/index.ts';
import type { Clock } from '../../clock/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { fleetHost, type ListenAddress, listenAddress, refuseOpenListener } from '../../planes/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { loadFolderTokenizer, type ModelInfo, PromptEncoder, readModelInfo } from '../../tokens/index.ts';
import type { Engine, EngineKind } from '../types.ts';
import { tcpHandoffs } from './handoffs.ts';
import { createMockEngine } from './mock-engine.ts';
import { engineModel, type KvStreamOptions, type MockEngineOptions } from './options.ts';
import { readTimingProfile, type TimingModel } from './timing.ts';
import type { Thinking } from './token-cursor.ts';
import { kvBytesPerToken } from './transfers.ts';

const BUILTIN_MODEL_NAME = 'stator-mini';

/**
 * Engine kind `--engine mocker`: the timing, the cache and the wire of an engine, with text that no model generated.
 */
export const mocker: EngineKind = {
  roles: ['prefill', 'decode'],
  isSeveral: true,
  runtimeData: { engine: 'mocker' }, // clients that chat with such a model are informed that it is a mock
  displayName({ servedModelName, modelName, modelPath }) {
    const given = servedModelName?.[0] ?? modelName;
    if (given !== undefined) return given;
    if (modelPath === undefined) return BUILTIN_MODEL_NAME;
    return hubModelOf(modelPath)?.id ?? modelPath.split('/').findLast((part) => part !== '');
  },
  async open({ settings }, { at, clock, logger, signal }) {
    const { modelPath } = settings;
    const given = modelPath === undefined ? undefined : await openModel(modelPath, { settings, clock, logger, signal });
    const folder = given ?? modelPath ?? builtinModelPath();
    const { engine, info } = await mockEngineFor(folder, settings, { at, clock, logger });
    const template = settings.customJinjaTemplate;
    const files = template === undefined ? info.files : { ...info.files, ...(await describeChatTemplate(template)) };
    const { contextLength, bosTokenId, defaultSampling: samplingDefaults } = info;
    return { engine, model: { files, contextLength, bosTokenId, samplingDefaults, sourcePath: modelPath ?? folder } };
  },
};

export interface MockEngineContext {
  readonly clock: Clock;
  /** Position among the engines of the process. @default 0 */
  readonly at?: number;
  /** Logger for tables of times that cannot be read. @default they are an error */
  readonly logger?: Logger;
}

const PORT_MAX = 65_535;

/** Creates a mock engine for the model in `folder`, and returns the model's information for its card. */
export async function mockEngineFor(
  folder: string,
  settings: Settings<'worker'>,
  { at = 0, clock, logger }: MockEngineContext,
): Promise<{ readonly engine: Engine; readonly info: ModelInfo }> {
  const info = await readModelInfo(folder);
  const options: MockEngineOptions = {
    numGpuBlocks: settings.numGpuBlocksOverride,
    maxModelLen: settings.maxModelLen ?? info.contextLength,
    ...engineModel(settings),
    timing: await timingOf(settings, logger),
    thinking: thinkingOf(settings),
    kvStream: kvStreamOf(settings, at),
    dataParallelSize: settings.dataParallelSize,
    startupTimeMs: (settings.startupTimeSecs ?? 0) * 1000,
    seed: settings.seed,
    ...(await transferOptions(info, settings, at)),
    ...(settings.mockOutput === 'random'
      ? { randomIds: plainIds(info) }
      : { readableTokenIds: await readableIds(folder, clock) }),
  };
  const listens = settings.disaggregationMode === 'prefill';
  const handoffs = tcpHandoffs(listens ? mockAddress(settings, 'blocks of a prefill engine') : LOOPBACK);
  return { engine: createMockEngine(options, { clock, handoffs }), info };
}

/**
 * Returns the options that follow from the worker's role. Decode workers do not report their caches unless they are
 * configured to.
 */
async function transferOptions(info: ModelInfo, settings: Settings<'worker'>, at: number): Promise<MockEngineOptions> {
  const { disaggregationMode: role, bootstrapPorts, kvEventsConfig } = settings;
  const config = info.files['config.json'];
  const derived = async (): Promise<number> =>
    config === undefined ? 0 : kvBytesPerToken(JSON.parse(await readFile(config.path, 'utf8')), settings.kvCacheDtype);
  return {
    isPrefill: role === 'prefill',
    publishesKvEvents: role !== 'decode' || kvEventsConfig?.enable_kv_cache_events === true,
    bootstrapPort: role === 'prefill' ? portOf('--bootstrap-ports', bootstrapPorts, at) : undefined,
    kvBytesPerToken: settings.kvBytesPerToken ?? (role === 'agg' ? 0 : await derived()),
    kvTransferBandwidthGbps: settings.kvTransferBandwidth,
    kvTransferTiming: settings.kvTransferTimingMode,
    handoffTimeoutMs: settings.handoffSessionTimeoutMs,
  };
}

/** Reads the measured times; falls back to the polynomials if they cannot be read. */
async function timingOf(
  { plannerProfileData: path }: Settings<'worker'>,
  logger: Logger | undefined,
): Promise<TimingModel | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readTimingProfile(path);
  } catch (thrown) {
    if (logger === undefined) throw thrown;
    logger.error('the measured times cannot be read: using the built-in ones', { reason: reasonOf(thrown) });
    return undefined;
  }
}

/** Reads `--reasoning`. @throws ConfigError for invalid values */
function thinkingOf({ reasoning }: Settings<'worker'>): Thinking | undefined {
  if (reasoning === undefined) return undefined;
  const number = (key: string, isFit: (value: number) => boolean, allowed: string): number => {
    const value = reasoning[key];
    if (typeof value === 'number' && isFit(value)) return value;
    throw new ConfigError([`--reasoning: ${key} must be ${allowed}, got ${JSON.stringify(value) ?? 'nothing'}`]);
  };
  const isId = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
  const startId = number('start_thinking_token_id', isId, 'a token id');
  return {
    startId,
    endId: number('end_thinking_token_id', (value) => isId(value) && value !== startId, 'another token id'),
    ratio: number('thinking_ratio', (value) => value >= 0 && value <= 1, 'a number from 0 to 1'),
  };
}

const LOOPBACK: ListenAddress = { bind: '127.0.0.1', advertise: '127.0.0.1' };

/**
 * Returns the address on which a mock engine listens, besides its worker's own.
 * @throws ConfigError when other machines could reach it: the listener has no authentication
 */
function mockAddress(settings: Settings<'worker'>, name: string): ListenAddress {
  const address = listenAddress(fleetHost(settings.tcpRpcHost, settings, undefined));
  const remedies = ['set DYN_TCP_RPC_HOST=127.0.0.1'];
  const listener = { name: `the mock engine's listener for ${name}`, address: address.bind, remedies };
  const refusal = refuseOpenListener({ ...listener, protectedBy: undefined, open: settings.planeOpen });
  if (refusal !== undefined) throw new ConfigError([refusal]);
  return address;
}

function kvStreamOf(settings: Settings<'worker'>, at: number): KvStreamOptions | undefined {
  const { zmqKvEventsPorts, zmqReplayPorts, dataParallelSize: ranks } = settings;
  const port = portOf('--zmq-kv-events-ports', zmqKvEventsPorts, at, ranks);
  if (port === undefined) return undefined;
  const replayPort = portOf('--zmq-replay-ports', zmqReplayPorts, at, ranks);
  return { host: mockAddress(settings, 'KV events').bind, port, replayPort };
}

/**
 * Returns the port of the worker at `at`, the first one of its ranks.
 * @throws ConfigError when it has none of its own, or one above 65535
 */
function portOf(flag: string, ports: readonly number[] | undefined, at: number, ranks = 1): number | undefined {
  if (ports === undefined) return undefined;
  const port = ports[at];
  if (port === undefined) throw new ConfigError([`${flag}: one port is needed for each worker, got ${ports.length}`]);
  if (port + ranks - 1 <= PORT_MAX) return port;
  throw new ConfigError([`${flag} ${port}: each rank adds its number, and ${ranks} ranks end above ${PORT_MAX}`]);
}

const PARAGRAPH_BREAK = '\n\n';

/**
 * The most common first question, and how many paragraphs of the text answer it: what a mock is, and what Stator is.
 */
const FIRST_QUESTION = { opening: 'What', whole: 'What are you' } as const;
const INTRODUCTION_PARAGRAPHS = 2;

async function readableIds(folder: string, clock: Clock) {
  const tokenizer = await loadFolderTokenizer(folder);
  const paragraphs = builtinText().trim().split(PARAGRAPH_BREAK);
  const introduction = paragraphs.slice(0, INTRODUCTION_PARAGRAPHS).join(PARAGRAPH_BREAK);
  const { opening, whole } = FIRST_QUESTION;
  const texts = [opening, whole, introduction, PARAGRAPH_BREAK, ...paragraphs];
  const encoder = new PromptEncoder({ clock }); // some tokenizers encode only in threads
  try {
    const encoded = await Promise.all(texts.map((text) => encoder.encode(tokenizer, text)));
    const [before, question, passage, separator, ...passages] = encoded.map(({ ids }) => ids);
    // Only its last words: the first word has other tokens after some prompts than at the beginning of a text.
    const cue = question!.slice(before!.length);
    return { passages, separator: separator!, introduction: { cue, passage: passage! } };
  } finally {
    await encoder.close();
  }
}

/** Returns ids that very likely are text: those below the model's end tokens, or above them if these come first. */
function plainIds({ eosTokenIds, vocabSize = 32_000 }: ModelInfo) {
  const firstEnd = Math.min(vocabSize, ...eosTokenIds);
  if (firstEnd > vocabSize / 2) return { first: 0, count: firstEnd };
  const first = Math.max(0, ...eosTokenIds) + 1;
  return { first, count: vocabSize - first };
}
