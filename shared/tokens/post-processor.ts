import { asRecord } from '../records/index.ts';

/** Ids that are put around one encoded text when special tokens are asked for. */
export interface Surroundings {
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
}

const NONE: Surroundings = { prefix: [], suffix: [] };

/**
 * Reads the `post_processor` of a tokenizer.json: ByteLevel (adds nothing), TemplateProcessing, BertProcessing,
 * RobertaProcessing, or a sequence of them. Undefined for other kinds.
 */
export function readPostProcessor(config: unknown): Surroundings | undefined {
  if (config === undefined || config === null) return NONE;
  const record = asRecord(config);
  switch (record?.type) {
    case 'ByteLevel':
      return NONE;
    case 'Sequence':
      return joinSurroundings(Array.isArray(record.processors) ? record.processors : []);
    case 'TemplateProcessing':
      return readTemplate(record.single, record.special_tokens);
    case 'BertProcessing':
    case 'RobertaProcessing':
      return readPair(record.cls, record.sep);
    default:
      return undefined;
  }
}

function joinSurroundings(steps: readonly unknown[]): Surroundings | undefined {
  let joined = NONE;
  for (const step of steps) {
    const one = readPostProcessor(step);
    if (one === undefined) return undefined;
    joined = { prefix: [...one.prefix, ...joined.prefix], suffix: [...joined.suffix, ...one.suffix] };
  }
  return joined;
}

/** `single` lists pieces in order: `{"SpecialToken": {"id": name}}` and once `{"Sequence": {...}}`. */
function readTemplate(single: unknown, specialTokens: unknown): Surroundings | undefined {
  if (!Array.isArray(single)) return undefined;
  const parts: { prefix: number[]; suffix: number[] } = { prefix: [], suffix: [] };
  let side = parts.prefix;
  let sequences = 0;
  for (const piece of single) {
    const { Sequence: sequence, SpecialToken: special } = asRecord(piece) ?? {};
    if (sequence !== undefined) {
      sequences++;
      side = parts.suffix;
      continue;
    }
    const entry = asRecord(asRecord(specialTokens)?.[String(asRecord(special)?.id)]);
    if (!Array.isArray(entry?.ids)) return undefined;
    side.push(...entry.ids.map(Number));
  }
  return sequences === 1 ? parts : undefined;
}

function readPair(cls: unknown, sep: unknown): Surroundings | undefined {
  if (!Array.isArray(cls) || !Array.isArray(sep)) return undefined;
  return { prefix: [Number(cls[1])], suffix: [Number(sep[1])] };
}
