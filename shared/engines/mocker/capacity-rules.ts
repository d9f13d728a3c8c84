import type { Sequence } from './sequence.ts';

/** Engines that the mock engine can imitate. */
export type EngineType = 'vllm' | 'sglang' | 'trtllm';

/** Rule by which an engine keeps its KV cache from running out. */
export interface CapacityRule {
  /** Returns how many blocks must remain when `newcomer` has entered with all its known tokens. */
  reserve(newcomer: Sequence, running: readonly Sequence[]): number;
  /** Returns the position of the running sequence to preempt when no block is available. */
  victimAt(running: readonly Sequence[]): number;
  /** End of the queue where preempted sequences wait. */
  readonly requeuesTo: 'front' | 'back';
  /** Notes that a sequence was preempted; `running` are the remaining ones. */
  gaveWay?(running: readonly Sequence[]): void;
  /** Notes a pass that was scheduled without preemption. */
  passed?(): void;
}

export interface CapacityRuleOptions {
  readonly numGpuBlocks: number;
  readonly blockSizeTokens: number;
  /** Which running sequence vLLM preempts: the one admitted last, or first. */
  readonly preemptionMode: 'lifo' | 'fifo';
  /** Share of the blocks that newcomers leave free; only for vLLM. @default 0, as in the reference */
  readonly watermark?: number | undefined;
  /** Engine whose rules of admission and preemption apply. @default vllm */
  readonly engineType?: EngineType | undefined;
}

/** Returns the rule of the imitated engine. */
export function capacityRule(options: CapacityRuleOptions): CapacityRule {
  switch (options.engineType ?? 'vllm') {
    case 'vllm':
      return admitOnWatermark(options);
    case 'trtllm':
      return admitForGood(options);
    case 'sglang':
      return new SglangRule(options);
  }
}

/** Returns vLLM's rule: a sequence enters if it fits now, and one is preempted when answers have grown. */
function admitOnWatermark({ numGpuBlocks, watermark = 0, preemptionMode }: CapacityRuleOptions): CapacityRule {
  const kept = Math.floor(watermark * numGpuBlocks);
  return {
    reserve: (_, running) => (running.length === 0 ? 0 : kept), // a lone sequence may use everything
    victimAt: (running) => (preemptionMode === 'lifo' ? running.length - 1 : 0),
    requeuesTo: 'front',
  };
}

/**
 * Returns TensorRT-LLM's rule, `guaranteed_no_evict`: a sequence enters when its longest answer fits beside those of
 * all others.
 */
function admitForGood(options: CapacityRuleOptions): CapacityRule {
  const { numGpuBlocks, blockSizeTokens } = options;
  const blocksOf = (tokens: number): number => Math.min(numGpuBlocks, Math.ceil(tokens / blockSizeTokens));
  return {
    reserve(newcomer, running) {
      if (running.length === 0) return 0;
      let blocks = blocksOf(newcomer.lengthMax) - blocksOf(newcomer.length);
      for (const { lengthMax, blockCount } of running) blocks += blocksOf(lengthMax) - blockCount;
      return blocks;
    },
    victimAt: (running) => running.length - 1, // never called: every block was reserved
    requeuesTo: 'front',
  };
}

/** Most output tokens that are counted for one sequence. */
const CLIP_MAX_NEW_TOKENS = 4096;
const NEW_TOKEN_RATIO = 0.7; // schedule_conservativeness 1
const NEW_TOKEN_RATIO_MIN = 0.14 * NEW_TOKEN_RATIO;
const RATIO_DECAY = (NEW_TOKEN_RATIO - NEW_TOKEN_RATIO_MIN) / 600;
/** Number of steps that every remaining sequence must have room for after a preemption. */
const RETRACT_DECODE_STEPS = 20;

/**
 * Rule of SGLang: a newcomer enters when its whole answer fits beside a share of the output that others may still
 * generate. The share falls while nothing is retracted, and rises when a sequence is: the one with the shortest answer,
 * then with the longest prompt.
 */
class SglangRule implements CapacityRule {
  readonly requeuesTo = 'back';
  readonly #blockSizeTokens: number;
  #ratio = NEW_TOKEN_RATIO;

  constructor({ blockSizeTokens }: CapacityRuleOptions) {
    this.#blockSizeTokens = blockSizeTokens;
  }

  reserve(newcomer: Sequence, running: readonly Sequence[]): number {
    if (running.length === 0) return 0;
    let tokens = 0;
    for (const sequence of running) tokens += outputLeft(sequence);
    return Math.ceil((tokens * this.#ratio + outputLeft(newcomer)) / this.#blockSizeTokens);
  }

  victimAt(running: readonly Sequence[]): number {
    let victimAt = 0;
    for (let at = 1; at < running.length; at++) {
      const [victim, other] = [running[victimAt]!, running[at]!];
      const byLength = other.generated === victim.generated && other.promptLength > victim.promptLength;
      if (other.generated < victim.generated || byLength) victimAt = at;
    }
    return victimAt;
  }

  gaveWay(running: readonly Sequence[]): void {
    let made = RETRACT_DECODE_STEPS * running.length;
    let wanted = 1;
    for (const sequence of running) {
      made += sequence.generated;
      wanted += sequence.generated + outputLeft(sequence);
    }
    this.#ratio = Math.min(1, made / wanted);
  }

  passed(): void {
    this.#ratio = Math.max(NEW_TOKEN_RATIO_MIN, this.#ratio - RATIO_DECAY);
  }
}

function outputLeft({ lengthMax, length }: Sequence): number {
  return Math.min(lengthMax - length, CLIP_MAX_NEW_TOKENS);
}
