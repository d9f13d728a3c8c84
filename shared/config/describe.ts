import type { Process } from './processes.ts';
import type { ResolvedConfig } from './resolve.ts';
import type { Row } from './row.ts';
import { GROUPS, rowsOf, type SettingName } from './table.ts';
import type { JsonValue } from './values/json.ts';
import { hideUrlPassword } from './values/texts.ts';

/** One effective setting, free of secrets. */
export interface SettingReport {
  readonly setting: SettingName;
  readonly group: string;
  /** Flags and variables, the main one first. */
  readonly names: readonly string[];
  /** The value as JSON; null when unset or switched off, `***` for a secret. */
  readonly value: JsonValue;
  /** The value as a user would write it, or what stands for it when there is none. */
  readonly shown: string;
  /** `flag --x`, `variable DYN_X` or `default`. */
  readonly origin: string;
}

/** Names under which a user can give the row, older spellings left out. */
export function namesOf(row: Row): readonly string[] {
  return [...row.flags, ...row.env, ...(row.type.arity === 'rest' ? ['-- ...'] : [])];
}

/** A value in words, free of secrets. */
export function showValue(row: Row, value: unknown): string {
  if (value === undefined) return row.defaultText ?? 'unset';
  const text = row.type.show(value);
  return text === '' ? 'empty' : text.replaceAll('\n', '\\n');
}

/** The default in words, with those of single processes. */
export function showDefault(row: Row): string {
  const own = Object.entries(row.defaultFor).map(([process, value]) => `${process}: ${showValue(row, value)}`);
  if (row.defaultText !== undefined) return row.defaultText;
  const general = row.requiredBy.length > 0 ? 'required' : showValue(row, row.default);
  return [general, ...own].join('; ');
}

/** A value as JSON, free of secrets. */
function toPlain(row: Row, value: unknown): JsonValue {
  if (value === undefined || value === null) return null;
  if (row.type.isSecret) return '***';
  if (typeof value === 'string') return hideUrlPassword(value);
  if (Array.isArray(value)) return value.map((element) => toPlain(row, element));
  return value as JsonValue; // numbers, booleans and parsed JSON are all that remain
}

/** Every setting of a process with its effective value and where it came from, in table order. */
export function describeSettings<P extends Process>(config: ResolvedConfig<P>): readonly SettingReport[] {
  const values: Readonly<Partial<Record<SettingName, unknown>>> = config.settings;
  return GROUPS.flatMap((group) =>
    rowsOf(config.process, group.rows).map(([setting, row]): SettingReport => {
      const given = config.given.get(setting);
      return {
        setting,
        group: group.title,
        names: namesOf(row),
        value: toPlain(row, values[setting]),
        shown: showValue(row, values[setting]),
        origin: given === undefined ? 'default' : `${given.kind} ${given.name}`,
      };
    }),
  );
}

/** The effective settings as aligned columns, one group after the other, for `stator config`. */
export function renderSettings<P extends Process>(config: ResolvedConfig<P>): string {
  const reports = describeSettings(config);
  const lines: string[] = [];
  let group = '';
  for (const report of reports) {
    if (report.group !== group) {
      group = report.group;
      lines.push('', group);
    }
    lines.push(`  ${report.names[0]?.padEnd(NAME_WIDTH)}  ${report.shown.padEnd(VALUE_WIDTH)}  ${report.origin}`);
  }
  return `Settings of ${config.process}: name, value, where it came from\n${lines.join('\n')}\n`;
}

const NAME_WIDTH = 44;
const VALUE_WIDTH = 26;

/** The effective settings as JSON text, for `--dump-config-to` and `stator config --json`. */
export function renderSettingsJson<P extends Process>(config: ResolvedConfig<P>): string {
  const settings = describeSettings(config).map(({ shown: _, ...report }) => report);
  return `${JSON.stringify({ process: config.process, settings, warnings: config.warnings }, undefined, 2)}\n`;
}
