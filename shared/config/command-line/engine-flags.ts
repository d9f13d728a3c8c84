import { mockerRows } from '../table/mocker.ts';
import type { SettingName } from '../table.ts';
import { SGLANG_FLAGS } from './sglang-flags.ts';
import { TRTLLM_FLAGS } from './trtllm-flags.ts';
import { VLLM_FLAGS } from './vllm-flags.ts';

/** What becomes of a flag that a setting of ours reads and the engine has, too. */
export interface SharedFlag {
  /** The setting that reads it; undefined = it is the engine's, whatever ours of that name is. */
  readonly setting?: SettingName;
  /**
   * `passed`: goes to the engine as it was given, and what ours cannot read of it is left to the engine. `written`: the start of
   * the engine writes it, by what the setting says.
   */
  readonly way: 'passed' | 'written';
  /** What the engine calls it. @default the flag itself */
  readonly as?: string;
  /** Of a flag without a value: what is passed where it is on, and where it is off. */
  readonly on?: readonly string[];
  readonly off?: readonly string[];
  /** What it says of the setting, where it takes no value. */
  readonly says?: string;
  /** What is said where ours cannot read what the engine may. @default nothing */
  readonly unread?: string;
  /** The setting that it stands for where the first is given by another flag. */
  readonly instead?: SettingName;
}

/** The flags of an engine that a worker starts. */
export interface EngineFlags {
  readonly engine: 'vllm' | 'sglang' | 'trtllm';
  /** Its name in sentences. */
  readonly title: string;
  /** Every flag of the releases that were looked at, dashes included. */
  readonly names: ReadonlySet<string>;
  readonly shared: Readonly<Record<string, SharedFlag>>;
  /** Flags with which it could not be driven: what to use instead. */
  readonly refused: Readonly<Record<string, string>>;
  /** Whether its flags are written with `_` alone, so that `-` in one that is known is made `_`. @default false */
  readonly isUnderscored?: boolean;
  /** Whether an argument that is no flag names the model. */
  readonly takesModel: boolean;
  /** Settings of the mock engine, or of another, that do nothing beside it. */
  readonly idle: ReadonlySet<SettingName>;
}

type Shared = Readonly<Record<string, SharedFlag>>;

/** Of the settings that make a mock engine, those that choose processes are of every engine. */
const OF_PROCESSES: ReadonlySet<string> = new Set(['numWorkers', 'staggerDelaySecs']);

function idleBeside(shared: Shared, ...more: readonly SettingName[]): ReadonlySet<SettingName> {
  const read = new Set(Object.values(shared).map(({ setting }) => setting));
  const ofMock = Object.keys(mockerRows).filter((setting) => !OF_PROCESSES.has(setting)) as SettingName[]; // its own rows
  return new Set(
    [...ofMock, 'zmqKvEventsPorts' as const, 'zmqReplayPorts' as const, ...more].filter(
      (setting) => !read.has(setting),
    ),
  );
}

function namesIn(list: string): ReadonlySet<string> {
  const words = list.split(/\s+/).filter((word) => word !== '');
  return new Set(
    words.flatMap((word) => {
      if (word.startsWith('-')) return [word];
      return word.endsWith('!') ? [`--${word.slice(0, -1)}`, `--no-${word.slice(0, -1)}`] : [`--${word}`];
    }),
  );
}

/** `passed` flags of one setting, the first of them the engine's name of it, under which those behind `|` go on. */
function passed(setting: SettingName, spellings: string): readonly (readonly [string, SharedFlag])[] {
  const [own = '', renamed = ''] = spellings.split(' | ');
  const names = own.split(' ');
  return [
    ...names.map((name) => [name, { setting, way: 'passed' }] as const),
    ...renamed.split(' ').map((name) => [name, { setting, way: 'passed', as: names[0] ?? '' }] as const),
  ].filter(([name]) => name !== '');
}

/** A switch of vLLM, with its `--no-` and, in later releases, its `--disable-` form. */
function vllmSwitch(setting: SettingName, flag: string): readonly (readonly [string, SharedFlag])[] {
  const off = `--no-${flag.slice(2)}`;
  const inverse = flag.replace('--enable-', '--disable-');
  return [
    [flag, { setting, way: 'passed', on: [flag], off: [off] }],
    ...(inverse === flag ? [] : [[inverse, { setting, way: 'passed', says: 'false' }] as const]),
  ];
}

const WRITTEN = { way: 'written' } as const;
const TLS =
  'the engine listens only for its worker, on loopback: for TLS to clients use --tls-cert-path of stator frontend';
const GRPC = 'a worker calls its engine by HTTP: for gRPC to clients use stator frontend --kserve-grpc-server';
/** What an engine does with chats that it renders itself, and a frontend with all others. */
const CHAT_FLAGS: readonly (readonly [string, SharedFlag])[] = [
  [
    '--tool-call-parser',
    { setting: 'toolCallParser', way: 'passed', unread: 'frontends read tool calls by --dyn-tool-call-parser' },
  ],
  [
    '--reasoning-parser',
    { setting: 'reasoningParser', way: 'passed', unread: 'frontends read reasoning by --dyn-reasoning-parser' },
  ],
  [
    '--chat-template',
    { setting: 'customJinjaTemplate', way: 'passed', unread: "frontends render chats by the model's own template" },
  ],
];

const VLLM_SHARED: Shared = Object.fromEntries<SharedFlag>([
  ['--model', { setting: 'model', ...WRITTEN }],
  ['--served-model-name', { setting: 'servedModelName', ...WRITTEN }],
  ['--kv-transfer-config', { setting: 'kvTransferConfig', ...WRITTEN }],
  ['--kv-events-config', { setting: 'kvEventsConfig', ...WRITTEN }],
  ['--headless', { setting: 'headless', ...WRITTEN }],
  ['--custom-jinja-template', { setting: 'customJinjaTemplate', ...WRITTEN }],
  ...passed('maxNumSeqs', '--max-num-seqs'),
  ...passed('maxNumBatchedTokens', '--max-num-batched-tokens'),
  ...passed('maxModelLen', '--max-model-len'),
  ...passed('blockSize', '--block-size'),
  ...passed('numGpuBlocksOverride', '--num-gpu-blocks-override'),
  ...passed('kvCacheDtype', '--kv-cache-dtype'),
  ...passed('seed', '--seed'),
  ...passed('watermark', '--watermark'),
  ...passed('tensorParallelSize', '--tensor-parallel-size -tp'),
  ...passed('dataParallelSize', '--data-parallel-size -dp'),
  ...passed('prefixCachingAlgo', '--prefix-caching-hash-algo | --prefix-caching-algo'),
  ...passed('streamInterval', '--stream-interval'),
  ...passed('maxLoraRank', '--max-lora-rank'),
  ...passed('maxLoras', '--max-loras'),
  ...vllmSwitch('enablePrefixCaching', '--enable-prefix-caching'),
  ...vllmSwitch('enableChunkedPrefill', '--enable-chunked-prefill'),
  ...vllmSwitch('enableLora', '--enable-lora'),
  ...vllmSwitch('enablePromptEmbeds', '--enable-prompt-embeds'),
  ...vllmSwitch('excludeToolsWhenToolChoiceNone', '--exclude-tools-when-tool-choice-none'),
  ...CHAT_FLAGS,
]);

const VLLM: EngineFlags = {
  engine: 'vllm',
  title: 'vLLM',
  names: namesIn(VLLM_FLAGS),
  takesModel: true,
  shared: VLLM_SHARED,
  idle: idleBeside(VLLM_SHARED),
  refused: {
    '--uds': 'a worker reaches its engine by TCP; --host and --port choose where',
    '--ssl-keyfile': TLS,
    '--ssl-certfile': TLS,
    '--grpc': GRPC,
  },
};

const SGLANG_SHARED: Shared = Object.fromEntries<SharedFlag>([
  ['--model', { setting: 'model', ...WRITTEN }],
  ['--model-path', { setting: 'model', instead: 'modelPath', ...WRITTEN }],
  ['--served-model-name', { setting: 'servedModelName', ...WRITTEN }],
  ['--kv-events-config', { setting: 'kvEventsConfig', ...WRITTEN }],
  ['--disaggregation-mode', { setting: 'disaggregationMode', ...WRITTEN }],
  ['--custom-jinja-template', { setting: 'customJinjaTemplate', ...WRITTEN }],
  ...passed('maxNumSeqs', '--max-running-requests | --max-num-seqs'),
  ...passed('maxNumBatchedTokens', '--max-prefill-tokens | --max-num-batched-tokens'),
  ...passed('maxModelLen', '--context-length | --max-model-len'),
  ...passed('blockSize', '--page-size | --block-size'),
  ...passed('kvCacheDtype', '--kv-cache-dtype'),
  ...passed('seed', '--random-seed | --seed'),
  ...passed('tensorParallelSize', '--tp-size --tensor-parallel-size --tp'),
  ...passed('dataParallelSize', '--dp-size --data-parallel-size --dp'),
  ...passed('streamInterval', '--stream-interval'),
  ...passed('maxLoraRank', '--max-lora-rank'),
  ...passed('maxLoras', '--max-loras-per-batch | --max-loras'),
  [
    '--enable-prefix-caching',
    { setting: 'enablePrefixCaching', way: 'passed', on: [], off: ['--disable-radix-cache'] },
  ],
  ['--disable-radix-cache', { setting: 'enablePrefixCaching', way: 'passed', says: 'false' }],
  [
    '--enable-chunked-prefill',
    { setting: 'enableChunkedPrefill', way: 'passed', on: [], off: ['--chunked-prefill-size', '-1'] },
  ],
  ['--enable-lora', { setting: 'enableLora', way: 'passed', on: ['--enable-lora'], off: [] }],
  ['--enable-multimodal', { way: 'passed' }],
  ...CHAT_FLAGS,
]);

const SGLANG: EngineFlags = {
  engine: 'sglang',
  title: 'SGLang',
  names: namesIn(SGLANG_FLAGS),
  takesModel: false,
  shared: SGLANG_SHARED,
  idle: idleBeside(SGLANG_SHARED, 'kvTransferConfig', 'prefixCachingAlgo', 'enablePromptEmbeds'),
  refused: {
    '--ssl-keyfile': TLS,
    '--ssl-certfile': TLS,
    '--grpc-mode': GRPC,
    '--smg-grpc-mode': GRPC,
  },
};

const TRTLLM_SHARED: Shared = Object.fromEntries<SharedFlag>([
  ['--model', { setting: 'model', ...WRITTEN }],
  ['--block-size', { setting: 'blockSize', ...WRITTEN }],
  ['--enable-prefix-caching', { setting: 'enablePrefixCaching', ...WRITTEN }],
  ...passed('maxNumSeqs', '--max-batch-size | --max-num-seqs'),
  ...passed('maxNumBatchedTokens', '--max-num-tokens | --max-num-batched-tokens'),
  ...passed('maxModelLen', '--max-seq-len | --max-model-len'),
  ...passed('tensorParallelSize', '--tensor-parallel-size --tp-size'),
  [
    '--enable-chunked-prefill',
    { setting: 'enableChunkedPrefill', way: 'passed', on: ['--enable-chunked-prefill'], off: [] },
  ],
  ...CHAT_FLAGS.map(([flag, shared]) => [flag === '--tool-call-parser' ? '--tool-parser' : flag, shared] as const),
]);

const TRTLLM: EngineFlags = {
  engine: 'trtllm',
  title: 'TensorRT-LLM',
  names: namesIn(TRTLLM_FLAGS),
  isUnderscored: true,
  takesModel: true,
  shared: TRTLLM_SHARED,
  idle: idleBeside(TRTLLM_SHARED, 'kvTransferConfig', 'prefixCachingAlgo', 'enablePromptEmbeds'),
  refused: {},
};

/** The engines whose flags are known. */
export const ENGINES: readonly EngineFlags[] = [VLLM, SGLANG, TRTLLM];

/** The flags of the engine that is called `name`; undefined for one that has none of its own here. */
export function flagsOfEngine(name: string | undefined): EngineFlags | undefined {
  return ENGINES.find(({ engine }) => engine === name);
}

/** The engines whose flag `name` is. */
export function enginesWith(name: string): readonly EngineFlags[] {
  return ENGINES.filter(({ names }) => names.has(name));
}
