import { type DefaultFacts, mockers, workers } from '../row.ts';

const BLOCK_SIZE_TOKENS = { vllm: 64, sglang: 1, trtllm: 32 } as const;

function blockSizeOfEngine(facts: DefaultFacts): number {
  const engine = facts.read('engineType');
  return engine === 'sglang' || engine === 'trtllm' ? BLOCK_SIZE_TOKENS[engine] : BLOCK_SIZE_TOKENS.vllm;
}

/** Rows of "Mocker". */
export const mockerRows = {
  numGpuBlocksOverride: workers.int({
    names: '--num-gpu-blocks-override',
    range: { min: 1, unit: 'blocks' },
    default: 16384,
    about: 'KV blocks per rank; simulate spells it --num-gpu-blocks.',
  }),
  blockSize: mockers.int({
    names: '--block-size',
    range: { min: 1, unit: 'tokens' },
    decide: blockSizeOfEngine,
    defaultText: 'vllm 64, sglang 1, trtllm 32',
    about: 'KV block size.',
  }),
  maxModelLen: mockers.int({
    names: '--max-model-len',
    range: { min: 1, unit: 'tokens' },
    defaultText: 'unset = no limit',
    about: 'Longest prompt plus output.',
  }),
  maxNumSeqs: mockers.int({
    names: '--max-num-seqs',
    range: { min: 1 },
    default: 256,
    about: 'Sequences per step.',
  }),
  maxNumBatchedTokens: mockers.int({
    names: '--max-num-batched-tokens',
    range: { min: 1, unit: 'tokens' },
    default: 8192,
    about: 'Tokens per step.',
  }),
  enableChunkedPrefill: mockers.bool({
    names: '--enable-chunked-prefill',
    default: true,
    about: 'Splits long prefills over steps.',
  }),
  preemptionMode: mockers.choice({
    names: '--preemption-mode',
    values: ['lifo', 'fifo'],
    default: 'lifo',
    about: 'Which request is evicted when blocks run out.',
  }),
  watermark: mockers.decimal({
    names: '--watermark',
    range: { min: 0, max: 1 },
    default: 0,
    source: 'older Dynamo: 0.01',
    about: 'Share of blocks that new requests leave free; only when vLLM is imitated.',
  }),
  speedupRatio: mockers.decimal({
    names: '--speedup-ratio',
    range: { min: 0 },
    note: '0 = no delay',
    default: 1,
    about: 'Divides all simulated times.',
  }),
  decodeSpeedupRatio: mockers.decimal({
    names: '--decode-speedup-ratio',
    range: { above: 0 },
    default: 1,
    about: 'Further divides decode times.',
  }),
  dataParallelSize: mockers.int({
    names: '--data-parallel-size',
    range: { min: 1 },
    default: 1,
    about: 'Ranks per worker.',
  }),
  startupTimeSecs: mockers.decimal({
    names: '--startup-time',
    range: { min: 0, unit: 's' },
    about: 'Simulated start-up.',
  }),
  plannerProfileData: mockers.fileOrFolder({
    names: '--planner-profile-data',
    defaultText: 'unset = built-in polynomials',
    about: 'Measured timing tables.',
  }),
  numWorkers: workers.int({
    names: '--num-workers',
    range: { min: 1 },
    default: 1,
    defaultFor: { local: 2 },
    about: 'Mock workers; one process each in stator local.',
  }),
  reasoning: mockers.json({
    names: '--reasoning',
    known: ['start_thinking_token_id', 'end_thinking_token_id', 'thinking_ratio'],
    about: 'Emits thinking tokens.',
  }),
  engineType: mockers.choice({
    names: '--engine-type',
    values: ['vllm', 'sglang', 'trtllm'],
    default: 'vllm',
    about: 'Engine that the mocker imitates.',
  }),
  extraEngineArgs: mockers.file({
    names: '--extra-engine-args',
    allowed: 'an existing JSON file of mocker keys',
    about: 'Overrides single flags; unknown keys are errors.',
  }),
  kvTransferBandwidth: mockers.decimal({
    names: '--kv-transfer-bandwidth',
    range: { min: 0, unit: 'GB/s' },
    note: '0 = no delay',
    default: 64,
    about: 'Bandwidth of a simulated KV transfer.',
  }),
  kvTransferTimingMode: mockers.choice({
    names: '--kv-transfer-timing-mode',
    values: ['full_prompt', 'destination_missing'],
    default: 'full_prompt',
    about: 'Blocks that a simulated transfer carries.',
  }),
  handoffSessionTimeoutMs: workers.int({
    names: '--handoff-session-timeout-ms',
    range: { min: 1, unit: 'ms' },
    default: 300_000,
    source: 'Stator; a key of 1.6.1',
    about: 'How long a prefill worker keeps prompt blocks that no decode worker fetches.',
  }),
  kvCacheDtype: mockers.choice({
    names: '--kv-cache-dtype',
    values: ['auto', 'bfloat16', 'fp8', 'fp8_ds_mla', 'fp8_e4m3', 'fp8_e5m2', 'fp8_inc'],
    default: 'auto',
    about: 'Type of KV values, from which bytes per token follow.',
  }),
  kvBytesPerToken: mockers.int({
    names: '--kv-bytes-per-token',
    range: { min: 1, unit: 'bytes' },
    defaultText: 'from the model configuration',
    about: 'KV bytes per token.',
  }),
  staggerDelaySecs: workers.decimal({
    names: '--stagger-delay',
    range: { min: -1, unit: 's' },
    note: '-1 = auto: 0.1 s from 32 workers on, 0.2 s above 128',
    default: 0,
    about: 'Pause between starting two workers.',
  }),
  mockOutput: mockers.choice({
    names: '--mock-output STATOR_MOCK_OUTPUT',
    values: ['text', 'random'],
    default: 'text',
    about: 'Readable text, or random token ids.',
  }),
  seed: mockers.int({
    names: '--seed STATOR_MOCK_SEED',
    range: { min: 0, max: 4294967295 },
    default: 0,
    about: 'Seed of the mock output and of simulate.',
  }),
};
