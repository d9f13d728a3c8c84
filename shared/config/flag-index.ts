import { commandOf, PROCESSES, type Process } from './processes.ts';
import type { Row } from './row.ts';
import { rowsOf, type SettingName, TABLE } from './table.ts';

/** What a flag stands for. */
export interface FlagMeaning {
  readonly setting: SettingName;
  readonly row: Row;
  /** The flag's own spelling without `no-`. */
  readonly flag: string;
  /** `--no-x`. */
  readonly negated: boolean;
}

interface Pattern extends FlagMeaning {
  readonly matches: RegExp;
}

/** The flags of one process. */
export interface FlagIndex {
  find(flag: string): FlagMeaning | undefined;
  /** Every exact spelling, `--no-` forms included. */
  readonly spellings: readonly string[];
}

/** A name with `*` as an expression that matches the whole text. */
export function patternOf(name: string): RegExp {
  return new RegExp(`^${name.replaceAll('*', '[\\w-]+')}$`);
}

function negationOf(flag: string): string | undefined {
  return flag.startsWith('--') ? `--no-${flag.slice(2)}` : undefined;
}

/** Every flag that `process` takes. */
export function indexFlags(process: Process): FlagIndex {
  const exact = new Map<string, FlagMeaning>();
  const patterns: Pattern[] = [];
  for (const [setting, row] of rowsOf(process)) {
    for (const flag of [...row.flags, ...row.olderFlags]) {
      const meaning = { setting, row, flag, negated: false };
      if (flag.includes('*')) patterns.push({ ...meaning, matches: patternOf(flag) });
      else exact.set(flag, meaning);
      const negation = row.type.arity === 'switch' ? negationOf(flag) : undefined;
      if (negation !== undefined) exact.set(negation, { ...meaning, negated: true });
    }
  }
  return {
    find: (flag) => exact.get(flag) ?? patterns.find((pattern) => pattern.matches.test(flag)),
    spellings: [...exact.keys()],
  };
}

/** The commands that take `flag`. */
export function commandsWithFlag(flag: string): readonly string[] {
  const bare = flag.startsWith('--no-') ? `--${flag.slice(5)}` : flag;
  const readers = new Set<Process>();
  for (const row of TABLE.values()) {
    const names = [...row.flags, ...row.olderFlags];
    const isKnown = names.some((name) => (name.includes('*') ? patternOf(name).test(flag) : name === flag));
    const isNegated = row.type.arity === 'switch' && names.includes(bare);
    if (isKnown || isNegated) for (const process of row.usedBy) readers.add(process);
  }
  return PROCESSES.filter((process) => readers.has(process)).flatMap((process) => commandOf(process) ?? []);
}
