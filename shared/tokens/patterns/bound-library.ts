import { asRecord } from '../../records/index.ts';
import { BoundedPattern } from './bounded-pattern.ts';
import { isKnownPattern } from './known-patterns.ts';
import { beginSteps } from './steps.ts';

/** Parts of the general library's tokenizer that hold patterns from the file. */
interface LibraryParts {
  readonly normalizer: unknown;
  readonly pre_tokenizer: unknown;
  readonly decoder: unknown;
}

interface BoundLibrary {
  /** Normalizes `text` and drops the result. @throws PatternBudgetError */
  tryNormalizing(text: string): void;
}

/** Limit of nested steps; in use are few. */
const DEPTH_MAX = 32;

/**
 * Replaces the patterns that come from the file with patterns that match within a budget.
 * @throws UnsupportedPattern for syntax that these do not cover
 */
export function boundPatterns(library: object): BoundLibrary {
  const { normalizer, pre_tokenizer: preTokenizer, decoder } = library as LibraryParts; // its types leave them out
  bound(normalizer, 0);
  bound(preTokenizer, 0);
  bound(decoder, 0);
  return {
    tryNormalizing(text) {
      beginSteps(text.length);
      if (typeof normalizer === 'function') normalizer(text);
    },
  };
}

/** Returns whether a part of a tokenizer.json has a pattern that must be replaced. */
export function hasUnknownPattern(part: unknown): boolean {
  let isFound = false;
  JSON.stringify(part, (key, value: unknown) => {
    if (key === 'Regex' && typeof value === 'string' && !isKnownPattern(value)) isFound = true;
    return value;
  });
  return isFound;
}

/** Replaces the patterns of a part and of the parts inside it. */
function bound(part: unknown, depth: number): void {
  if (depth > DEPTH_MAX) throw new Error('steps are nested too deeply');
  if ((typeof part !== 'object' && typeof part !== 'function') || part === null) return;
  const members = part as { pattern?: unknown; readonly config?: unknown };
  const regex = asRecord(asRecord(members.config)?.pattern)?.Regex;
  if (members.pattern instanceof RegExp && typeof regex === 'string' && !isKnownPattern(regex)) {
    members.pattern = new BoundedPattern(members.pattern, members.pattern.flags);
  }
  for (const value of Object.values(part)) {
    if (Array.isArray(value)) for (const item of value.filter(isPart)) bound(item, depth + 1);
    else if (isPart(value)) bound(value, depth + 1);
  }
}

/** Returns whether a value is a part: the library's parts are functions with members. */
function isPart(value: unknown): boolean {
  return typeof value === 'function';
}
