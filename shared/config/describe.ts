import { renderUnbuilt } from './describe-unbuilt.ts';
import { needsOf } from './needs.ts';
import type { ResolvedConfig } from './resolve.ts';
import type { Process, Row } from './row.ts';
import { GROUPS, type NamedRow, rowsOf, type SettingName, TABLE } from './table.ts';
import type { JsonValue } from './values/json.ts';
import { hideUrlPassword } from './values/texts.ts';
import { hideSecrets } from './values/words.ts';

/** One effective setting, without secrets. */
interface SettingReport {
  readonly setting: SettingName;
  readonly group: string;
  /** Flags and variables, the main one first. */
  readonly names: readonly string[];
  /** Value as JSON; null if unset or switched off, `***` for a secret. */
  readonly value: JsonValue;
  /** Value as a user would write it, or a text that stands for a missing value. */
  readonly shown: string;
  /** Source of the value: `flag --x`, `variable DYN_X` or `default`. */
  readonly origin: string;
}

/** Returns the names under which a user can give the row, without older spellings. */
function namesOf(row: Row): readonly string[] {
  return [...row.flags, ...row.env, ...(row.type.arity === 'rest' ? ['-- ...'] : [])];
}

/** Returns a value in words, without secrets. */
export function showValue(row: Row, value: unknown): string {
  if (value === undefined) return row.defaultText ?? 'unset';
  const text = row.type.show(value);
  return text === '' ? 'empty' : text.replaceAll('\n', '\\n');
}

/** Returns the default in words, with the defaults of single processes. */
export function showDefault(row: Row): string {
  const own = Object.entries(row.defaultFor).map(([process, value]) => `${process}: ${showValue(row, value)}`);
  if (row.defaultText !== undefined) return row.defaultText;
  const general = row.requiredBy.length > 0 ? 'required' : showValue(row, row.default);
  return [general, ...own].join('; ');
}

/** Returns a value as JSON, without secrets. */
function toPlain(row: Row, value: unknown): JsonValue {
  if (value === undefined || value === null) return null;
  if (row.type.isSecret) return '***';
  if (typeof value === 'string') return hideUrlPassword(value);
  if (row.type.arity === 'rest') return [...hideSecrets(value as readonly string[])]; // texts
  if (Array.isArray(value)) return value.map((element) => toPlain(row, element));
  return value as JsonValue; // numbers, booleans and parsed JSON are all that remain
}

/** Returns every setting of a process with its effective value and its source, in table order. */
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

/** Returns the effective settings as aligned columns, group by group, for `stator config`. */
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

/** Returns the effective settings as JSON text, for `--dump-config-to` and `stator config --json`. */
export function renderSettingsJson<P extends Process>(config: ResolvedConfig<P>): string {
  const settings = describeSettings(config).map(({ shown: _, ...report }) => report);
  return `${JSON.stringify({ process: config.process, settings, warnings: config.warnings }, undefined, 2)}\n`;
}

const PREFACE = `# Configuration

This page lists every flag and variable of Stator. \`stator config --format markdown\` makes it from the table in
\`shared/config/table\`; do not edit it.

The value of a setting comes from its flag; without one, from its variable; without either, it is the default.
\`stator config COMMAND\` takes the flags of a command, and shows every effective value and where it came from.
\`--dump-config-to FILE\` writes the same as JSON when a process starts. Both show secrets as \`***\`.

| Subject | Rule |
|---|---|
| Flags | \`--x value\` or \`--x=value\`, without abbreviations. If a flag is repeated, the last one counts; the values of a list are joined. With an unknown flag, or a flag of another command, the process does not start (exit code 2), and a message names the right flag |
| Switches | \`--x\`, \`--no-x\`, \`--x=true\`, \`--x=false\`; also if the table shows only \`--x\` |
| Variables | true: 1, true, yes, on; false: 0, false, no, off and empty. An empty variable of another type counts as unset, or switches the setting off if its type says "or None". A process ignores variables of other processes, and warns of an unknown \`DYN_\` or \`STATOR_\` variable |
| None | \`None\`, \`none\`, \`null\` or an empty value switches off a setting whose type says "or None" |
| Words | lower case; hyphen and underscore mean the same |
| Numbers | decimal, without a unit; the unit is in the name or the type: s, ms, MiB = 1024^2 bytes, GB/s = 10^9 bytes/s |
| Lists | separated by commas or blanks |
| JSON | inline, or \`@file\` |
| Files | \`~\` is the home folder; a file or folder must exist unless the process writes it |
| Several names | aliases of one setting: if two are given and differ, the first in the table counts, with a warning. Older spellings work, with a warning |
| Needs | some settings have no effect without another one, which the end of their meaning names ("Needs ..."). If you set one without the other, the process warns once at its start |
| Source | where the setting comes from: \`Dynamo\` is Dynamo's documentation, \`1.6.1\` that release of Dynamo, \`Stator\` this product. A text behind the colon says what Dynamo does or its default, if Stator's is another one |
| Not built | a process accepts the names at [the end of this page](#not-built) with one warning at its start. They do nothing, except those that an engine takes |
`;

const TRAPS = `## Names that mislead

| Name | What to know |
|---|---|
| \`DYN_ROUTER_USE_KV_EVENTS\` | the flag is \`--router-kv-events\` |
| \`DYN_CHAT_PROCESSOR\`, \`DYN_DEBUG_PERF\`, \`DYN_PREPROCESS_WORKERS\` | the flags begin with \`--dyn-\`; the variables have \`DYN_\` only once |
| \`DYN_ROUTER_LOAD_AWARE\`, \`DYN_DECODE_FALLBACK\` | the flags are \`--load-aware\` and \`--decode-fallback\` |
| Path variables ending in \`_ENV\` | \`_ENV\` is a part of the name. The name without it works, too; if both are set, the name with it wins |
| \`--router-queue-threshold\` | \`None\` switches the queue off |
| Busy thresholds | they have default values, but \`--admission-control none\`, the default, clears them |
| \`--decode-fallback\`, \`--enforce-disagg\` | they are not opposites: the first is about absent prefill workers, the second about a failed prefill. To give both is an error |
| \`DYN_NAMESPACE\` | for a frontend a filter, without a default; for a worker its own namespace, \`dynamo\` by default |
| \`DYN_ENDPOINT\`, \`DYN_ROUTER_ENDPOINT\` | two variables for one flag, \`--endpoint\`: the process decides which one counts |
| \`--block-size\` | for mocker and simulator the block size of the engine; for the standalone router an older spelling of \`--router-block-size\`. \`--kv-cache-block-size\` is another setting, which overrides the model card |
| \`--aic-*\`, \`--ais-*\` | two spellings for the same timing model; the load model of the router and the timing of the mocker share it |
| \`--seed\` | seed of the mock output and the simulator; ties of the router use \`STATOR_ROUTER_SEED\` |
| \`DYN_HTTP_MAX_CONNECTIONS\`, \`DYN_HTTP_TIMEOUT\` and their like | they configure the client with which a worker fetches media, not the server |
| \`DYN_TLS_*\`, \`DYN_TCP_TLS_*\`, \`NATS_TLS_*\` | three separate sets of certificates: for HTTP, for the request plane and for NATS |
| \`DYN_SYSTEM_PORT\` | child processes inherit it: a fixed port for several workers of \`stator local\` or of \`stator planner --planner-connector local\` is an error |
| \`DYN_HTTP_OVERLOAD_STATUS_CODE\` | does not change the status of Anthropic routes, which stays 529 |
| \`AWS_ENDPOINT\` | endpoint of S3 (adapters and files of models); tables use \`STATOR_DYNAMODB_ENDPOINT\` |
`;

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

function flagCell(row: Row): string {
  if (row.type.arity === 'rest') return 'after `--`';
  const negation = row.type.arity === 'switch' && row.flags[0] !== undefined ? [`--no-${row.flags[0].slice(2)}`] : [];
  return namesCell([...row.flags, ...negation], row.olderFlags);
}

function namesCell(names: readonly string[], older: readonly string[]): string {
  return code(names) + (older.length === 0 ? '' : `, older ${code(older)}`) || '-';
}

function describeRow([setting, row]: NamedRow): string {
  const deprecated = row.deprecated === undefined ? '' : `Deprecated: ${row.deprecated}.`;
  const about = [row.about, deprecated, needsOf(setting)].filter((part) => part !== '').join(' ');
  const type = row.type.name;
  const columns = [cell(type), cell(showDefault(row)), cell(row.allowed) || '-', row.usedBy.join(', ')];
  return `| ${[flagCell(row), namesCell(row.env, row.olderEnv), ...columns, cell(row.source), cell(about)].join(' | ')} |`;
}

/**
 * Returns the text of `docs/configuration.md`: the rules, every row of the table by section, names that mislead, and
 * names that do nothing.
 */
export function renderConfigurationDocs(): string {
  const sections = GROUPS.map((group) => {
    const head =
      '| flag | variable | type | default | range or values | used by | source | meaning |\n|---|---|---|---|---|---|---|---|';
    return `## ${group.title}\n\n${head}\n${group.rows.map(describeRow).join('\n')}\n`;
  });
  return [PREFACE, ...sections, TRAPS, renderUnbuilt()].join('\n');
}

/** Flags and variables for a child process. */
interface ForwardedSettings {
  readonly argv: readonly string[];
  /** Arguments of an engine, which come last, after `--`. Flags among them that are settings too are not in `argv`. */
  readonly behind: readonly string[];
  /** Secrets, which are passed as variables because every user of the machine can read a command line. */
  readonly env: Readonly<Record<string, string>>;
}

// The dump file and the number of processes belong to the parent. A child that read them too would overwrite the dump
// and multiply the workers.
const PARENT_ONLY: ReadonlySet<SettingName> = new Set(['dumpConfigTo', 'numWorkers']);

/**
 * Returns the settings from this process's command line that `child` reads too, to start `child` from here. Variables
 * are left out: a child inherits the environment (without the name of the dump file).
 */
export function forwardSettings(config: Pick<ResolvedConfig, 'given'>, child: Process): ForwardedSettings {
  const argv: string[] = [];
  const behind: string[] = [];
  const env: Record<string, string> = { DYN_DUMP_CONFIG_TO: '' }; // empty = unset
  for (const [setting, given] of config.given) {
    const row = TABLE.get(setting);
    if (row === undefined || PARENT_ONLY.has(setting)) continue;
    if (given.kind !== 'flag' || given.passed !== undefined || !row.usedBy.includes(child)) continue;
    const variable = row.env[0];
    if (row.type.isSecret && variable !== undefined) env[variable] = given.texts.at(-1) ?? '';
    else if (row.type.arity === 'rest') behind.push(...given.texts);
    else argv.push(...given.texts.map((text) => `${given.name}=${text}`));
  }
  return { argv, behind, env };
}
