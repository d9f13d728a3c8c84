import { readFileSync } from 'node:fs';

/** One flag of a release of an engine, from `test/fixtures/engines/flags/`. */
export interface RecordedFlag {
  /** Its spellings, including `--no-` forms. */
  readonly flags: readonly string[];
  /** Number of values: none, one, at most one, any number, at least one. A switch is on or off by its spelling. */
  readonly takes: 'none' | 'switch' | 'one' | 'optional' | 'any' | 'some';
  readonly choices?: readonly string[];
  readonly value?: 'int' | 'float' | 'json';
}

export const RECORDED_ENGINES = ['vllm-0.20.2', 'vllm-0.33.0', 'sglang-0.5.20', 'sglang-0.5.23'] as const;
/** The recorded release of TensorRT-LLM, which spells its flags with `_`. */
export const RECORDED_TRTLLM = 'trtllm-1.2';

/** Returns the flags of `engine` as its own argument parser has them. */
export function recordedFlags(
  engine: (typeof RECORDED_ENGINES)[number] | typeof RECORDED_TRTLLM,
): readonly RecordedFlag[] {
  const file = new URL(`../fixtures/engines/flags/${engine}.jsonl`, import.meta.url);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as RecordedFlag);
}

const SAMPLES = { int: ['7', '8'], float: ['0.5', '0.25'], json: ['{"a":-1}', '{}'], text: ['x y', 'z'] } as const;

/** Returns arguments that set `flag` in that spelling, with as many values as it takes. */
export function sampleOf({ takes, choices, value }: RecordedFlag, spelling: string): readonly string[] {
  const [first = '', second = first] = choices ?? SAMPLES[value ?? 'text'];
  if (takes === 'none' || takes === 'switch') return [spelling];
  return takes === 'some' || takes === 'any' ? [spelling, first, second] : [spelling, first];
}
