import type { Sequence } from './sequence.ts';

/** Engines that the mock engine can imitate. */
export type EngineType = 'vllm' | 'sglang' | 'trtllm';

/** How an engine keeps its KV cache from running out. */
export interface CapacityRule {
  /** Blocks that must be left when `newcomer` has entered with all that is known of it. */
  reserve(newcomer: Sequence, running: readonly Sequence[]): number;
  /** Position of the running sequence that gives way when there is no block to be had. */
  victimAt(running: readonly Sequence[]): number;
  /** Where those that gave way wait. */
  readonly requeuesTo: 'front' | 'back';
  /** A sequence gave way; `running` are those that are left. */
  gaveWay?(running: readonly Sequence[]): void;
  /** A pass was scheduled in which nobody gave way. */
  passed?(): void;
}

export interface CapacityRuleOptions {
  readonly numGpuBlocks: number;
  readonly blockSizeTokens: number;
  /** Which running sequence gives way in vLLM: the one admitted last, or first. */
  readonly preemptionMode: 'lifo' | 'fifo';
  /** Share of the blocks that newcomers leave free; vLLM alone. @default 0, as in the reference */
  readonly watermark?: number | undefined;
  /** Whose rules of admission and preemption hold. @default vllm */
  readonly engineType?: EngineType | undefined;
}

/** The rule of the engine that is imitated. */
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

/** vLLM: whoever fits now enters, and somebody gives way when answers have grown. */
function admitOnWatermark({ numGpuBlocks, watermark = 0, preemptionMode }: CapacityRuleOptions): CapacityRule {
  const kept = Math.floor(watermark * numGpuBlocks);
  return {
    reserve: (_, running) => (running.length === 0 ? 0 : kept), // one alone may have everything
    victimAt: (running) => (preemptionMode === 'lifo' ? running.length - 1 : 0),
    requeuesTo: 'front',
  };
}

/** TensorRT-LLM, `guaranteed_no_evict`: a sequence enters when its longest answer fits beside those of all others. */
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
    victimAt: (running) => running.length - 1, // never asked: every block was reserved
    requeuesTo: 'front',
  };
}

/** Output tokens counted of one sequence at most. */
const CLIP_MAX_NEW_TOKENS = 4096;
const NEW_TOKEN_RATIO = 0.7; // schedule_conservativeness 1
const NEW_TOKEN_RATIO_MIN = 0.14 * NEW_TOKEN_RATIO;
const RATIO_DECAY = (NEW_TOKEN_RATIO - NEW_TOKEN_RATIO_MIN) / 600;
/** Steps that everybody left is to have room for after somebody gave way. */
const RETRACT_DECODE_STEPS = 20;

/**
 * SGLang: a newcomer enters when its whole answer fits beside a share of what the others may still make. The share falls
 * while all goes well and rises when one has to be retracted: the one with the shortest answer, then the longest prompt.
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
