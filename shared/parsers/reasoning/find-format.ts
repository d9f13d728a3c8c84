import { REASONING_PARSERS_WITHOUT_GRAMMAR } from '../../config/index.ts';
import { REASONING_FORMATS, type ReasoningFormat } from './formats.ts';

/** What a configured name stands for. */
export type FoundFormat =
  | { readonly kind: 'found'; readonly format: ReasoningFormat }
  /** An unknown name: `basic` stands in, and `warning` is for the log. */
  | { readonly kind: 'fallback'; readonly format: ReasoningFormat; readonly warning: string }
  /** A known name without a published grammar: the model cannot be registered with it. */
  | { readonly kind: 'refused'; readonly reason: string };

const BY_KEY: ReadonlyMap<string, ReasoningFormat> = new Map(
  REASONING_FORMATS.map((format) => [keyOf(format.name), format]),
);
const FALLBACK = BY_KEY.get('basic')!; // the first of the table

/**
 * Looks up a reasoning parser by its configured name, whatever its case, hyphens and underscores.
 * @example
 * const found = findReasoningFormat('deepseek-v4');
 * if (found.kind === 'refused') throw new ServeError('invalid_value', found.reason);
 */
export function findReasoningFormat(name: string): FoundFormat {
  const format = BY_KEY.get(keyOf(name));
  if (format !== undefined) return { kind: 'found', format };
  const known = REASONING_FORMATS.map((one) => one.name).join(', ');
  if (REASONING_PARSERS_WITHOUT_GRAMMAR.some((one) => keyOf(one) === keyOf(name))) {
    return {
      kind: 'refused',
      reason: `reasoning parser '${name}' is recognised, but its format is not published; use one of: ${known}`,
    };
  }
  return {
    kind: 'fallback',
    format: FALLBACK,
    warning: `unknown reasoning parser '${name}', using 'basic'; known are: ${known}`,
  };
}

/** What spellings of one name share: `deepseek_v4`, `deepseek-v4` and `deepseekv4` are the same. */
function keyOf(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}
