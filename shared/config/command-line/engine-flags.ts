import { mockerRows } from '../table/mocker.ts';
import type { SettingName } from '../table.ts';
import { SGLANG_FLAGS } from './sglang-flags.ts';
import { TRTLLM_FLAGS } from './trtllm-flags.ts';
import { VLLM_FLAGS } from './vllm-flags.ts';

/** Treatment of a flag that both one of our settings and the engine read. */
export interface SharedFlag {
  /** Setting that reads the flag; undefined = the flag belongs to the engine, even if a flag of ours has its name. */
  readonly setting?: SettingName;
  /**
   * `passed`: the flag goes to the engine unchanged, and the engine handles a value that our setting cannot read.
   * `written`: the start of the engine writes the flag from the value of the setting.
   */
  readonly way: 'passed' | 'written';
  /** Name of the flag at the engine. @default the flag itself */
  readonly as?: string;
  /** Arguments that are passed for a flag without a value: `on` if it is on, `off` if it is off. */
  readonly on?: readonly string[];
  readonly off?: readonly string[];
  /** Value that the flag gives the setting, if it takes no value itself. */
  readonly says?: string;
  /** Text of the warning if our setting cannot read a value that the engine may know. @default no warning */
  readonly unread?: string;
  /** Setting that gets the value if another flag has already given the first one. */
  readonly instead?: SettingName;
}

/** Flags of an engine that a worker starts. */
export interface EngineFlags {
  readonly engine: 'vllm' | 'sglang' | 'trtllm';
  /** Name of the engine in sentences. */
  readonly title: string;
  /** Every flag of the examined releases, with its dashes. */
  readonly names: ReadonlySet<string>;
  readonly shared: Readonly<Record<string, SharedFlag>>;
  /** Flags with which the worker could not drive the engine, with what to use instead. */
  readonly refused: Readonly<Record<string, string>>;
  /** Whether flags are written with `_`, so that `-` in a known flag becomes `_`. @default false */
  readonly isUnderscored?: boolean;
  /** Whether an argument that is not a flag names the model. */
  readonly takesModel: boolean;
  /** Settings of the mock engine, or of another engine, that have no effect beside this one. */
  readonly idle: ReadonlySet<SettingName>;
}

type Shared = Readonly<Record<string, SharedFlag>>;

/** Settings among those of the mock engine that choose processes and therefore apply to every engine. */
const OF_PROCESSES: ReadonlySet<string> = new Set(['numWorkers', 'staggerDelaySecs']);

function idleBeside(shared: Shared, ...more: readonly SettingName[]): ReadonlySet<SettingName> {
  const read = new Set(Object.values(shared).map(({ setting }) => setting));
  // its own rows
  const ofMock = Object.keys(mockerRows).filter((setting) => !OF_PROCESSES.has(setting)) as SettingName[];
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

/**
 * Returns the `passed` flags of one setting. The first spelling is the engine's own; the spellings behind `|` are
 * passed on under it.
 */
function passed(setting: SettingName, spellings: string): readonly (readonly [string, SharedFlag])[] {
  const [own = '', renamed = ''] = spellings.split(' | ');
  const names = own.split(' ');
  return [
    ...names.map((name) => [name, { setting, way: 'passed' }] as const),
    ...renamed.split(' ').map((name) => [name, { setting, way: 'passed', as: names[0] ?? '' }] as const),
  ].filter(([name]) => name !== '');
}

/** Returns a switch of vLLM, with its `--no-` form and, for later releases, its `--disable-` form. */
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
const OR_LEFT = 'or leave chats to the engine with --dyn-chat-processor';
/** Flags for chats that the engine renders itself; a frontend needs the same settings for all others. */
const CHAT_FLAGS: readonly (readonly [string, SharedFlag])[] = [
  [
    '--tool-call-parser',
    {
      setting: 'toolCallParser',
      way: 'passed',
      unread: `frontends read tool calls by --dyn-tool-call-parser, ${OR_LEFT}`,
    },
  ],
  [
    '--reasoning-parser',
    {
      setting: 'reasoningParser',
      way: 'passed',
      unread: `frontends read reasoning by --dyn-reasoning-parser, ${OR_LEFT}`,
    },
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

/** Returns the flags of the engine `name`; undefined for an engine without flags of its own here. */
export function flagsOfEngine(name: string | undefined): EngineFlags | undefined {
  return ENGINES.find(({ engine }) => engine === name);
}

/** Returns the engines that have the flag `name`. */
export function enginesWith(name: string): readonly EngineFlags[] {
  return ENGINES.filter(({ names }) => names.has(name));
}
