import { KubeFailure } from '../../discovery/index.ts';
import { assertNever } from '../../errors/index.ts';

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/** A part of a selector. */
interface Requirement {
  readonly key: string;
  readonly operator: 'in' | 'notin' | 'exists' | 'absent';
  readonly values: readonly string[];
}

/** Selector of labels, as the scale of a workload states it. */
export interface Selector {
  readonly text: string;
  readonly requirements: readonly Requirement[];
}

/** A requirement between commas; a list in parentheses has commas, too. */
const PARTS = /[^,()]+(?:\([^()]*\))?/g;
const SET = /^(\S+)\s+(in|notin)\s+\(([^()]*)\)$/;
const EQUAL = /^([^\s=!]+)\s*(!=|==|=)\s*([^\s=!]*)$/;
const BARE = /^(!?)\s*([^\s=!]+)$/;

/**
 * Reads a selector of labels: `app=chat,tier in (a,b),!canary`.
 * @throws KubeFailure that names a part that it cannot read
 */
export function readSelector(text: string): Selector {
  return { text, requirements: (text.match(PARTS) ?? []).map((part) => requirementOf(part.trim(), text)) };
}

function requirementOf(part: string, text: string): Requirement {
  const [, setKey = '', operator, list = ''] = SET.exec(part) ?? [];
  if (operator === 'in' || operator === 'notin') {
    return { key: setKey, operator, values: list.split(',').map((value) => value.trim()) };
  }
  const [, key = '', sign, value = ''] = EQUAL.exec(part) ?? [];
  if (sign !== undefined) return { key, operator: sign === '!=' ? 'notin' : 'in', values: [value] };
  const [, not, bareKey = ''] = BARE.exec(part) ?? [];
  if (not === undefined) throw new KubeFailure(0, `the selector ${text} cannot be read at ${JSON.stringify(part)}`);
  return { key: bareKey, operator: not === '!' ? 'absent' : 'exists', values: [] };
}

/**
 * Returns whether a selector chooses an object. Like the API server, `notin` also takes an object without the label.
 */
export function isSelected(labels: Labels, { requirements }: Selector): boolean {
  return requirements.every(({ key, operator, values }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    switch (operator) {
      case 'in':
        return value !== undefined && values.includes(value);
      case 'notin':
        return value === undefined || !values.includes(value);
      case 'exists':
        return value !== undefined;
      case 'absent':
        return value === undefined;
      default:
        return assertNever(operator);
    }
  });
}

/**
 * Returns few selectors that together choose at least what the given ones do: one for all those that require values of
 * the same labels. So pods of many workloads need only one list, although it may have pods of none.
 */
export function joinedSelectors(selectors: readonly Selector[]): readonly string[] {
  const joined = new Map<string, Map<string, Set<string>>>();
  const alone = new Set<string>();
  for (const { text, requirements } of selectors) {
    const required = requirements.filter(({ operator }) => operator === 'in');
    if (required.length === 0) {
      alone.add(text);
      continue;
    }
    const group = required
      .map(({ key }) => key)
      .toSorted()
      .join();
    const values = joined.get(group) ?? new Map<string, Set<string>>();
    joined.set(group, values);
    for (const { key, values: own } of required) values.set(key, new Set([...(values.get(key) ?? []), ...own]));
  }
  const texts = [...joined.values()].map((keys) => [...keys].map(([key, values]) => textOf(key, [...values])).join());
  return [...texts, ...alone];
}

function textOf(key: string, values: readonly string[]): string {
  return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.toSorted().join()})`;
}
