import { readFile } from 'node:fs/promises';
import { builtinText } from '../../shared/artifacts/index.ts';
import { systemClock } from '../../shared/clock/index.ts';
import type { Settings } from '../../shared/config/index.ts';
import type { Engine } from '../../shared/engines/index.ts';
import {
  createMockEngine,
  kvBytesPerToken,
  type MockEngineOptions,
  tcpHandoffs,
} from '../../shared/engines/mocker/index.ts';
import { listenAddress } from '../../shared/planes/request/index.ts';
import { loadModelFolder, type ModelInfo, readModelInfo } from '../../shared/tokens/index.ts';
import { engineModel } from './engine-model.ts';

type MockSettings = Pick<
  Settings<'worker'>,
  | 'mockOutput'
  | 'numGpuBlocksOverride'
  | 'blockSize'
  | 'maxModelLen'
  | 'maxNumSeqs'
  | 'maxNumBatchedTokens'
  | 'enablePrefixCaching'
  | 'enableChunkedPrefill'
  | 'preemptionMode'
  | 'speedupRatio'
  | 'decodeSpeedupRatio'
  | 'dataParallelSize'
  | 'startupTimeSecs'
  | 'seed'
  | 'disaggregationMode'
  | 'bootstrapPorts'
  | 'kvBytesPerToken'
  | 'kvCacheDtype'
  | 'kvTransferBandwidth'
  | 'kvTransferTimingMode'
  | 'kvEventsConfig'
  | 'tcpRpcHost'
>;

/**
 * A mock engine for the model in `folder`, and what its card says of that model.
 * @param at its place among the engines of the process
 */
export async function mockEngineFor(
  folder: string,
  settings: MockSettings,
  at = 0,
): Promise<{ readonly engine: Engine; readonly info: ModelInfo }> {
  const info = await readModelInfo(folder);
  const options: MockEngineOptions = {
    numGpuBlocks: settings.numGpuBlocksOverride,
    maxModelLen: settings.maxModelLen ?? info.contextLength,
    ...engineModel(settings),
    dataParallelSize: settings.dataParallelSize,
    startupTimeMs: (settings.startupTimeSecs ?? 0) * 1000,
    seed: settings.seed,
    ...(await transferOptions(info, settings, at)),
    ...(settings.mockOutput === 'random'
      ? { randomIds: plainIds(info) }
      : { readableTokenIds: await readableIds(folder) }),
  };
  const handoffs = tcpHandoffs(listenAddress(settings.tcpRpcHost ?? 'auto'));
  return { engine: createMockEngine(options, { clock: systemClock, handoffs }), info };
}

/** How its role in a deployment shows. Decode workers tell nothing of their caches unless they are told to. */
async function transferOptions(info: ModelInfo, settings: MockSettings, at: number): Promise<MockEngineOptions> {
  const { disaggregationMode: role, bootstrapPorts, kvEventsConfig } = settings;
  const config = info.files['config.json'];
  const derived = async (): Promise<number> =>
    config === undefined ? 0 : kvBytesPerToken(JSON.parse(await readFile(config.path, 'utf8')), settings.kvCacheDtype);
  return {
    isPrefill: role === 'prefill',
    publishesKvEvents: role !== 'decode' || kvEventsConfig?.enable_kv_cache_events === true,
    bootstrapPort: role === 'prefill' ? bootstrapPorts?.[at] : undefined,
    kvBytesPerToken: settings.kvBytesPerToken ?? (role === 'agg' ? 0 : await derived()),
    kvTransferBandwidthGbps: settings.kvTransferBandwidth,
    kvTransferTiming: settings.kvTransferTimingMode,
  };
}

const PARAGRAPH_BREAK = '\n\n';

async function readableIds(folder: string) {
  const { tokenizer } = await loadModelFolder(folder);
  const passages = builtinText()
    .trim()
    .split(PARAGRAPH_BREAK)
    .map((passage) => tokenizer.encode(passage));
  return { passages, separator: tokenizer.encode(PARAGRAPH_BREAK) };
}

/** Ids that are text in all likelihood: those below the model's end tokens, or above them where these come first. */
function plainIds({ eosTokenIds, vocabSize = 32_000 }: ModelInfo) {
  const firstEnd = Math.min(vocabSize, ...eosTokenIds);
  if (firstEnd > vocabSize / 2) return { first: 0, count: firstEnd };
  const first = Math.max(0, ...eosTokenIds) + 1;
  return { first, count: vocabSize - first };
}
