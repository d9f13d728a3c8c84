import type { UnknownRecord } from '../records/index.ts';
import { ModelFolderError } from './model-files.ts';
import type { DefaultSampling } from './types.ts';

interface Row {
  /** Name of the parameter in the file. */
  readonly name: string;
  /** Name of the parameter in requests. */
  readonly ours: keyof DefaultSampling;
  readonly allowed: string;
  isFit(value: number): boolean;
}

const penalty = (name: 'presence_penalty' | 'frequency_penalty'): Row => ({
  name,
  ours: name,
  allowed: 'a number from -2 to 2',
  isFit: (value) => value >= -2 && value <= 2,
});

const ROWS: readonly Row[] = [
  { name: 'temperature', ours: 'temperature', allowed: 'a number from 0 on', isFit: (value) => value >= 0 },
  {
    name: 'top_p',
    ours: 'top_p',
    allowed: 'a number above 0, up to 1',
    isFit: (value) => value > 0 && value <= 1,
  },
  {
    name: 'top_k',
    ours: 'top_k',
    allowed: 'a whole number, 0 or -1 for all tokens',
    isFit: (value) => Number.isSafeInteger(value) && value >= -1,
  },
  { name: 'min_p', ours: 'min_p', allowed: 'a number from 0 to 1', isFit: (value) => value >= 0 && value <= 1 },
  {
    name: 'repetition_penalty',
    ours: 'repetition_penalty',
    allowed: 'a number above 0',
    isFit: (value) => value > 0,
  },
  penalty('presence_penalty'),
  penalty('frequency_penalty'),
  {
    name: 'max_new_tokens',
    ours: 'max_tokens',
    allowed: 'a whole number from 1 on',
    isFit: (value) => Number.isSafeInteger(value) && value >= 1,
  },
];

/**
 * Reads the sampling defaults of a generation_config.json, in the names of requests. Null counts as absent.
 * @param place file or flag that `config` is from, for messages
 * @throws ModelFolderError that names place, field and value
 */
export function readDefaultSampling(config: UnknownRecord, place: string): DefaultSampling {
  const found: Partial<Record<keyof DefaultSampling, number>> = {};
  for (const { name, ours, allowed, isFit } of ROWS) {
    const value = config[name];
    if (value === undefined || value === null) continue;
    if (typeof value !== 'number' || !Number.isFinite(value) || !isFit(value)) {
      const shown = JSON.stringify(value).slice(0, SHOWN_LENGTH_MAX);
      throw new ModelFolderError(`${place}: ${name} is ${shown}; write ${allowed}`);
    }
    found[ours] = ours === 'top_k' && value === 0 ? -1 : value;
  }
  return found;
}

const SHOWN_LENGTH_MAX = 80;
